package kill

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// process is the stack in a process of its own, which is killed and started
// again on the same directory, each time on a new port.
type process struct {
	dir string

	mu    sync.Mutex
	cmd   *exec.Cmd
	url   string
	kills int
}

// start starts it and waits until it serves.
func (p *process) start() error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimEnv+"="+p.dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if _, err := cmd.StdinPipe(); err != nil { // its end tells the victim that we are gone
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if err != nil || !ok {
		return errors.Join(fmt.Errorf("the victim did not start: %q", line), err, cmd.Process.Kill(), cmd.Wait())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.url = cmd, url
	return nil
}

// kill ends it as kill -9 does.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // says that it was killed
	p.cmd = nil
	p.kills++
}

// at is where it serves now, or served last, and how often it was killed before.
func (p *process) at() (url string, kills int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.url, p.kills
}

// entry is one line of the handlers' journal.
type entry struct {
	pid, word, id string
	attempt       int
}

// journal reads what handlers have noted so far.
func (p *process) journal() ([]entry, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, "journal"))
	if err != nil {
		return nil, err
	}
	var out []entry
	for line := range strings.Lines(string(text)) {
		var e entry
		if _, err := fmt.Sscanf(line, "%s %s %s %d\n", &e.pid, &e.word, &e.id, &e.attempt); err != nil {
			return nil, fmt.Errorf("journal: %q: %w", line, err)
		}
		out = append(out, e)
	}
	return out, nil
}
