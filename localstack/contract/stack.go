package contract

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Stack is a server that was started for a test.
type Stack struct {
	Base string // its address
	Log  string // the file with what it printed
	stop func()
}

// Stop ends the server and removes what it wrote. It may be called more than once.
func (s *Stack) Stop() { s.stop() }

// readyWithin is how long a server may take to answer /healthz.
const readyWithin = 15 * time.Second

// Build compiles the runner (localstack/run) into dir and gives the binary's path.
func Build(ctx context.Context, dir string) (string, error) {
	bin := filepath.Join(dir, "lanekeeper-local")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", bin, "github.com/lanekeeper/lanekeeper/localstack/run")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the runner: %w\n%s", err, out)
	}
	return bin, nil
}

// Launch starts the runner on a free port with an empty data directory and waits until it is ready. A nil config is
// the demonstration's. The process ends with ctx, with Stop, and with ours.
func Launch(ctx context.Context, bin string, config []byte) (*Stack, error) {
	dir, err := os.MkdirTemp("", "lanekeeper-contract-")
	if err != nil {
		return nil, err
	}
	s, err := launch(ctx, bin, dir, config)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func launch(ctx context.Context, bin, dir string, config []byte) (*Stack, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }() // the process has its own handle
	cmd := exec.Command(bin)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "PORT="+strconv.Itoa(port), "DATA_DIR="+filepath.Join(dir, "data"))
	if config != nil {
		file := filepath.Join(dir, "lanekeeper.yaml")
		if err := os.WriteFile(file, config, 0o600); err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, "LANEKEEPER_CONFIG="+file)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the runner: %w", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	var once sync.Once
	s := &Stack{Base: "http://127.0.0.1:" + strconv.Itoa(port), Log: log.Name()}
	s.stop = func() {
		once.Do(func() {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-exited:
			case <-time.After(time.Second): // a drain may take long; nothing here is worth waiting for
				_ = cmd.Process.Kill()
				<-exited
			}
			_ = os.RemoveAll(dir)
		})
	}
	context.AfterFunc(ctx, s.stop)
	if err := ready(ctx, s.Base, exited); err != nil {
		tail := Tail(s.Log)
		s.stop()
		return nil, fmt.Errorf("%w; it printed:\n%s", err, tail)
	}
	return s, nil
}

// ready waits until /healthz is 200 or the process has ended.
func ready(ctx context.Context, base string, exited <-chan struct{}) error {
	deadline := time.NewTimer(readyWithin)
	defer deadline.Stop()
	client := &http.Client{Timeout: time.Second}
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/healthz", nil)
		if err != nil {
			return err
		}
		if resp, err := client.Do(req); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-exited:
			return errors.New("the runner ended before it was ready")
		case <-deadline.C:
			return fmt.Errorf("the runner was not ready within %v", readyWithin)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Tail gives the last few KB of a file, for a report.
func Tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	if const4k := 4096; len(text) > const4k {
		text = text[len(text)-const4k:]
	}
	return string(text)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port, nil
}
