//go:build !unix

package embed

import "os"

// lockFile does not lock where flock does not exist: there the operator sees to
// it that one process at a time uses the file.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
