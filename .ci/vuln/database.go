package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// vulndb is the module that holds the database's sources.
const vulndb = "golang.org/x/vulndb"

// database is a folder of OSV files, one per vulnerability.
type database struct {
	dir     string
	version string // of the module; its middle part is the date, UTC
}

// locateDatabase takes the newest database that can be had. govulncheck reads
// the module's folder of reports as it is, so no index needs to be built.
func locateDatabase() (database, error) {
	out, err := goCommand("mod", "download", "-json", vulndb+"@latest")
	var module struct{ Dir, Version, Error string }
	if jsonErr := json.Unmarshal(out, &module); jsonErr == nil && err == nil && module.Error == "" {
		return reports(module.Dir, module.Version)
	}
	cached, cacheErr := newestCached()
	if cacheErr != nil {
		return database{}, errors.Join(fmt.Errorf("no database: %s", module.Error), err, cacheErr)
	}
	fmt.Fprintln(os.Stderr, "vuln: the newest database cannot be had, using the module cache's")
	return cached, nil
}

// newestCached finds the newest copy in the module cache. Pseudo-versions
// carry their time, so they sort by it.
func newestCached() (database, error) {
	cache, err := goCommand("env", "GOMODCACHE")
	if err != nil {
		return database{}, err
	}
	pattern := filepath.Join(strings.TrimSpace(string(cache)), filepath.FromSlash(vulndb)+"@*")
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		return database{}, err
	}
	if len(dirs) == 0 {
		return database{}, fmt.Errorf("none in the module cache either (%s)", pattern)
	}
	newest := slices.Max(dirs)
	_, version, _ := strings.Cut(filepath.Base(newest), "@")
	return reports(newest, version)
}

// reports refuses a folder that holds too little to be the database: a scan
// against an empty one would always pass.
func reports(module, version string) (database, error) {
	dir := filepath.Join(module, "data", "osv")
	files, err := filepath.Glob(filepath.Join(dir, "GO-*.json"))
	if err != nil {
		return database{}, err
	}
	const fewest = 4000 // it held 4,700 in late 2026 and only grows
	if len(files) < fewest {
		return database{}, fmt.Errorf("%s holds %d reports, expected at least %d", dir, len(files), fewest)
	}
	return database{dir: dir, version: version}, nil
}
