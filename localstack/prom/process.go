package prom

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
)

// Process puts in go_goroutines and, where /proc has it (Linux),
// process_resident_memory_bytes.
func (s *Set) Process() error {
	s.Gauge("go_goroutines", "Number of goroutines that currently exist.").Add(float64(runtime.NumGoroutine()))
	raw, err := os.ReadFile("/proc/self/statm")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("prom: resident memory: %w", err)
	}
	pages, err := residentPages(raw)
	if err != nil {
		return err
	}
	s.Gauge("process_resident_memory_bytes", "Resident memory size in bytes.").Add(float64(pages) * float64(os.Getpagesize()))
	return nil
}

// residentPages is the second field of /proc/self/statm (proc_pid_statm(5)).
func residentPages(statm []byte) (uint64, error) {
	fields := bytes.Fields(statm)
	if len(fields) < 2 {
		return 0, fmt.Errorf("prom: statm %q has no resident size", statm)
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("prom: statm: %w", err)
	}
	return pages, nil
}
