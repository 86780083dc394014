package environment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sound = `config: queue.yaml
account_concurrency: 1000
log_retention_days: 30
throttle: {rate: 10, burst: 20}
memory_mb: {admission: 256, worker: 256, aggregator: 256}
`

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestLoad(t *testing.T) {
	path := write(t, "qa2.yaml", sound+"workers: {default: bin/mine, heavy: /opt/big}\n")
	e, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if e.Name != "qa2" || !e.Reservations || !e.DeletionProtection || !e.Retain || e.GOARCH() != "arm64" || e.LambdaArchitecture() != "arm64" {
		t.Errorf("what protects is on unless said otherwise: %+v", e)
	}
	dir := filepath.Dir(path)
	if e.ConfigPath() != filepath.Join(dir, "queue.yaml") || e.WorkerBinary("light") != filepath.Join(dir, "bin", "mine") || e.WorkerBinary("heavy") != "/opt/big" {
		t.Errorf("paths %s, %s, %s", e.ConfigPath(), e.WorkerBinary("light"), e.WorkerBinary("heavy"))
	}
}

func TestLoadReportsEveryFault(t *testing.T) {
	_, err := Load(write(t, "my-env.yaml", "architecture: sparc\ntrace_share: 5\nlog_retention_days: 31\n"))
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"my-env", "config:", "architecture:", "account_concurrency:", "log_retention_days:", "throttle:", "memory_mb.admission", "memory_mb.worker", "memory_mb.aggregator", "trace_share"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("nothing about %s in\n%v", part, err)
		}
	}
	if _, err := Load(write(t, "dev.yaml", sound+"reservation: false\n")); err == nil || !strings.Contains(err.Error(), "reservation") {
		t.Errorf("an unknown key: %v", err)
	}
}

func TestJWT(t *testing.T) {
	e, err := Load(write(t, "dev.yaml", sound+"jwt: {issuer: https://id.example/pool, audience: [queue], tenant_claim: tenant, tier_claim: tier}\n"))
	if err != nil || e.JWT == nil || e.JWT.Issuer != "https://id.example/pool" || e.JWT.TenantClaim != "tenant" {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := Load(write(t, "dev.yaml", sound)); err != nil || e.JWT != nil {
		t.Errorf("without: %+v, %v", e, err)
	}
	_, err = Load(write(t, "dev.yaml", sound+"jwt: {issuer: 'http://id.example', audience: []}\n"))
	for _, part := range []string{"jwt.issuer", "jwt.audience", "jwt.tenant_claim"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("nothing about %s in %v", part, err)
		}
	}
}

func TestReservesFitTheQuota(t *testing.T) {
	e := &Environment{Reservations: true}
	if err := e.CheckReserves(900, 1000); err != nil {
		t.Error(err)
	}
	if err := e.CheckReserves(901, 1000); err == nil || !strings.Contains(err.Error(), "reservations: false") {
		t.Errorf("above the quota: %v", err)
	}
	e.Reservations = false
	if err := e.CheckReserves(901, 10); err != nil {
		t.Error(err)
	}
}

// TestNamesDoNotCollide tries what could: lanes named like the suffixes, and one
// environment's name at the start of another's.
func TestNamesDoNotCollide(t *testing.T) {
	seen := map[string]string{}
	for _, env := range []string{"dev", "dev2", "d"} {
		e := &Environment{Name: env}
		for _, lane := range []string{"a", "ev-a", "worker-a", "2-a"} {
			for _, name := range []string{"q " + e.Queue(lane), "q " + e.DeadLetters(lane), "f " + e.Worker(lane)} {
				who := env + "/" + lane
				if other, taken := seen[name]; taken {
					t.Errorf("%s is of %s and %s", name, other, who)
				}
				seen[name] = who
			}
		}
		for _, f := range []string{Admission, Aggregator, Redrive} {
			if other, taken := seen["f "+e.Function(f)]; taken {
				t.Errorf("function %s of %s is %s too", f, env, other)
			}
			seen["f "+e.Function(f)] = env
		}
	}
}
