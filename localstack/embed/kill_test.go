package embed_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lanekeeper/lanekeeper/localstack/embed"
	"github.com/lanekeeper/lanekeeper/pkg/op"
	"github.com/lanekeeper/lanekeeper/pkg/queue"
)

const (
	victimEnv = "EMBED_TEST_VICTIM" // the file to write to
	roundEnv  = "EMBED_TEST_ROUND"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(victimEnv); path != "" {
		victim(path)
	}
	os.Exit(m.Run())
}

// victim writes for ever and prints what was acknowledged, until it is killed.
func victim(path string) {
	db, err := embed.Open(path, embed.Options{})
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	ctx := context.Background()
	if err := db.Queues().Create(ctx, "q", embed.QueueConfig{}); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	var mu sync.Mutex
	ack := func(line string, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			line = "error " + err.Error()
		}
		fmt.Println(line)
	}
	var wg sync.WaitGroup
	for client := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				name := fmt.Sprintf("%s-%d-%d", os.Getenv(roundEnv), client, i)
				ack("tx "+name, db.Table().Transact(ctx, op.Tx{Name: "tx", Writes: []op.Write{
					{Name: "row", Key: op.Key{PK: "row", SK: name}, Action: op.Put, Cond: op.ItemMissing, Item: op.Item{"dk": op.S("due"), "ds": op.S(name)}},
					{Name: "sum", Key: op.Key{PK: "sum", SK: "sum"}, Action: op.Update, Changes: []op.Change{op.Add("n", 1)}},
				}}))
				ack("msg "+name, db.Queues().Send(ctx, "q", queue.Outgoing{Body: name}))
			}
		})
	}
	wg.Wait()
}

// What was acknowledged survives SIGKILL, and nothing is half-done.
func TestKill9LosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	acked := map[string]bool{}
	for round := range 3 {
		before := len(acked)
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), victimEnv+"="+path, fmt.Sprintf("%s=%d", roundEnv, round))
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			kind, name, _ := strings.Cut(lines.Text(), " ")
			if kind == "error" {
				t.Fatal(lines.Text())
			}
			acked[kind+" "+name] = true
			if len(acked) == before+400 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); err == nil || len(acked) < before+400 {
			t.Fatalf("round %d: the victim ended with %v after %d acknowledgements", round, err, len(acked))
		}
		recovered(t, path, acked)
	}
}

func recovered(t *testing.T, path string, acked map[string]bool) {
	t.Helper()
	db, err := embed.Open(path, embed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, sum := map[string]bool{}, int64(0)
	if err := db.Table().Scan(t.Context(), "", func(r op.Row) bool {
		if r.Key.PK == "sum" {
			sum = r.Item.Int("n")
		} else {
			rows["tx "+r.Key.SK] = true
		}
		return true
	}); err != nil {
		t.Fatal(err)
	}
	indexed := 0
	if err := (op.Query{Index: op.IndexDue, PK: "due"}).All(t.Context(), db.Table(), func(op.Row) bool { indexed++; return true }); err != nil {
		t.Fatal(err)
	}
	if int(sum) != len(rows) || indexed != len(rows) {
		t.Fatalf("%d rows, %d indexed, sum %d", len(rows), indexed, sum)
	}
	counts, err := db.Queues().Counts(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	for line := range acked {
		if strings.HasPrefix(line, "msg ") {
			messages++
		} else if !rows[line] {
			t.Errorf("acknowledged and lost: %s", line)
		}
	}
	if counts.Visible < messages {
		t.Errorf("%d messages acknowledged, %d there", messages, counts.Visible)
	}
}
