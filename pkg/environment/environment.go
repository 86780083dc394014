package environment

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/lanekeeper/lanekeeper/pkg/policy"
	"github.com/lanekeeper/lanekeeper/pkg/trace"
)

// Environment is one deployment's settings.
type Environment struct {
	// Name is the file's name without its suffix: a letter, then letters and digits, at most 12.
	Name string `yaml:"-"`
	// Config is the path of the queue's configuration, relative to the environment's file.
	Config string `yaml:"config"`
	// Architecture of the functions: arm64, x86_64, or host, which is the building machine's and meant for emulators
	// that run the binaries themselves.
	Architecture string `yaml:"architecture"`
	// AccountConcurrency is the account's quota of concurrent executions in the region (new accounts: as low as 10).
	AccountConcurrency int `yaml:"account_concurrency"`
	// Reservations says whether lanes reserve concurrency. false is for accounts whose quota is too small to reserve
	// anything; lanes are then kept apart by MaximumConcurrency alone.
	Reservations bool `yaml:"reservations"`
	// DeletionProtection keeps the table from being deleted, and Retain keeps it when its stack is.
	DeletionProtection bool `yaml:"deletion_protection"`
	Retain             bool `yaml:"retain"`
	// LogRetentionDays is one of the values that CloudWatch Logs accepts.
	LogRetentionDays int `yaml:"log_retention_days"`
	// Throttle is the API's, for all clients together.
	Throttle Throttle `yaml:"throttle"`
	// MemoryMB of the functions, 128 to 10240.
	MemoryMB Memory `yaml:"memory_mb"`
	// MetricMath says whether alarms may compute from several metrics. false is for emulators that cannot; the lanes'
	// no-invocations alarms are left out then.
	MetricMath bool `yaml:"metric_math"`
	// AlarmEmail is subscribed to the alarm topic, if it is not empty.
	AlarmEmail string `yaml:"alarm_email"`
	// Workers are binaries of your own by lane, built for Architecture; the key default is for all other lanes. Lanes
	// without one run the built-in handlers. Paths are relative to the environment's file.
	Workers map[string]string `yaml:"workers"`
	// TraceShare of the submissions that bring no trace starts one, 0 to 1; default 0.05. Those that bring one decide themselves.
	TraceShare float64 `yaml:"trace_share"`
	// JWT lets callers show a JSON Web Token instead of an API key, on routes of their own. nil: API keys only.
	JWT *JWT `yaml:"jwt"`

	dir string
}

// Throttle limits requests.
type Throttle struct {
	Rate  int `yaml:"rate"`  // requests a second
	Burst int `yaml:"burst"` // requests at once
}

// JWT says whose tokens API Gateway accepts and what stands in them.
type JWT struct {
	// Issuer is the https address under which the issuer publishes its keys, exactly as in the claim iss.
	Issuer string `yaml:"issuer"`
	// Audience are the accepted values of the claim aud, or client_id where there is no aud; at least one.
	Audience []string `yaml:"audience"`
	// TenantClaim is the claim that names the tenant.
	TenantClaim string `yaml:"tenant_claim"`
	// TierClaim is the claim that names the tier; empty: the tenant's stored contract says it.
	TierClaim string `yaml:"tier_claim"`
}

func (j *JWT) validate() error {
	if j == nil {
		return nil
	}
	u, err := url.Parse(j.Issuer)
	return errors.Join(
		faultIf(err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "", "jwt.issuer: %q is no https address", j.Issuer),
		faultIf(len(j.Audience) == 0 || slices.Contains(j.Audience, ""), "jwt.audience: needs at least one value and no empty one, or any token of the issuer would do"),
		faultIf(j.TenantClaim == "", "jwt.tenant_claim: is missing"),
	)
}

// Memory is per kind of function, in MB.
type Memory struct {
	Admission  int `yaml:"admission"`
	Worker     int `yaml:"worker"`
	Aggregator int `yaml:"aggregator"`
}

// UnreservedConcurrency is what Lambda insists on leaving unreserved in an account.
const UnreservedConcurrency = 100

// Architectures of Environment.
const (
	ARM64 = "arm64"
	X8664 = "x86_64"
	Host  = "host"
)

// retentions are the days that CloudWatch Logs accepts.
var retentions = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653}

// A hyphen in the name could make "a" with the lane "b-c" and "a-b" with the lane "c" the same.
var nameForm = regexp.MustCompile(`^[a-z][a-z0-9]{0,11}$`)

// Load reads an environment's file. The error holds every fault.
func Load(path string) (*Environment, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("environment: %w", err)
	}
	e := &Environment{Reservations: true, DeletionProtection: true, Retain: true, MetricMath: true, TraceShare: trace.DefaultShare, Architecture: ARM64}
	if err := yaml.UnmarshalWithOptions(data, e, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	e.Name = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	e.dir = filepath.Dir(path)
	if err := e.validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

func (e *Environment) validate() error {
	return errors.Join(
		faultIf(!nameForm.MatchString(e.Name), "the file's name %q must be a letter and up to 11 letters or digits", e.Name),
		faultIf(e.Config == "", "config: is missing"),
		faultIf(!slices.Contains([]string{ARM64, X8664, Host}, e.Architecture), "architecture: %q is none of arm64, x86_64, host", e.Architecture),
		faultIf(e.AccountConcurrency < 10, "account_concurrency: must be at least 10, is %d", e.AccountConcurrency),
		faultIf(!slices.Contains(retentions, e.LogRetentionDays), "log_retention_days: %d is none of %v", e.LogRetentionDays, retentions),
		faultIf(e.Throttle.Rate < 1 || e.Throttle.Burst < 1, "throttle: rate and burst must be at least 1"),
		memory("admission", e.MemoryMB.Admission), memory("worker", e.MemoryMB.Worker), memory("aggregator", e.MemoryMB.Aggregator),
		faultIf(!(e.TraceShare >= 0 && e.TraceShare <= 1), "trace_share: must be from 0 to 1, is %v", e.TraceShare),
		e.JWT.validate(),
	)
}

func memory(name string, mb int) error {
	return faultIf(mb < 128 || mb > 10240, "memory_mb.%s: must be from 128 to 10240, is %d", name, mb)
}

func faultIf(fault bool, format string, args ...any) error {
	if !fault {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// ConfigPath is the path of the queue's configuration.
func (e *Environment) ConfigPath() string { return e.path(e.Config) }

// WorkerBinary is the path of the user's own worker binary for a lane, "" for the built-in worker.
func (e *Environment) WorkerBinary(lane string) string {
	for _, key := range []string{lane, "default"} {
		if p, ok := e.Workers[key]; ok {
			return e.path(p)
		}
	}
	return ""
}

func (e *Environment) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(e.dir, p)
}

// GOARCH is the architecture as the go command names it.
func (e *Environment) GOARCH() string {
	switch e.Architecture {
	case X8664:
		return "amd64"
	case Host:
		return runtime.GOARCH
	}
	return ARM64
}

// LambdaArchitecture is the architecture as Lambda names it.
func (e *Environment) LambdaArchitecture() string {
	if e.GOARCH() == ARM64 {
		return ARM64
	}
	return X8664
}

// Reserved is the concurrency that a lane's workers reserve: 0 where nothing is
// reserved, and for the retry lane, whose share of the others is its own, that share.
func (e *Environment) Reserved(c *policy.Config, lane string) int {
	l, ok := c.Lane(lane)
	switch {
	case !ok || !e.Reservations:
		return 0
	case l.Role == policy.RoleRetry:
		return max(l.Workers.Reserved, c.Workers(lane))
	}
	return l.Workers.Reserved
}

// AllReserved is what all lanes reserve together.
func (e *Environment) AllReserved(c *policy.Config) int {
	sum := 0
	for _, lane := range c.LaneNames() {
		sum += e.Reserved(c, lane)
	}
	return sum
}

// CheckReserves says whether the lanes' reserves fit a quota of concurrent executions. The error tells the way out.
func (e *Environment) CheckReserves(reserved, quota int) error {
	if !e.Reservations || reserved <= quota-UnreservedConcurrency {
		return nil
	}
	return fmt.Errorf("the lanes reserve %d concurrent executions; the quota of %d leaves %d, as %d must stay unreserved: ask for a higher quota, lower workers.reserved, or set reservations: false in the environment",
		reserved, quota, max(0, quota-UnreservedConcurrency), UnreservedConcurrency)
}
