package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/lanekeeper/lanekeeper/pkg/environment"
)

const (
	cdkCLI = ".cache/cdk/node_modules/.bin/cdk"
	source = "infra/environments/local.yaml"
	// account is the emulators'.
	account = "aws://000000000000/us-east-1"
)

// deployment is the environment "local" at one endpoint.
type deployment struct {
	env      *environment.Environment
	conf     aws.Config
	endpoint *url.URL
	out      io.Writer
	dir      string // what is deployed: environment, configuration, packages, templates
	base     string // of the API, once open
	proxy    *httptest.Server
}

func newDeployment(ctx context.Context, endpoint *url.URL, out io.Writer) (*deployment, error) {
	e, err := environment.Load(source)
	if err != nil {
		return nil, err
	}
	conf, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lanekeeper-deployed-")
	if err != nil {
		return nil, err
	}
	return &deployment{env: e, conf: conf, endpoint: endpoint, out: out, dir: dir}, nil
}

func (d *deployment) cleanUp() {
	if d.proxy != nil {
		d.proxy.Close()
	}
	_ = os.RemoveAll(d.dir)
}

func (d *deployment) file(name string) string { return filepath.Join(d.dir, name) }

// command runs a program; what it printed is shown only if it fails.
func (d *deployment) command(ctx context.Context, env []string, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var buf bytes.Buffer
	cmd.Stdout, cmd.Stderr = &buf, &buf
	if err := cmd.Run(); err != nil {
		text := buf.Bytes()
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, text[max(0, len(text)-6000):])
	}
	return nil
}

func (d *deployment) bootstrap(ctx context.Context) error {
	return d.command(ctx, nil, cdkCLI, "bootstrap", account)
}

// deploy assembles, synthesises and deploys the environment with a configuration.
func (d *deployment) deploy(ctx context.Context, configuration []byte) error {
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	cfg := d.file("lanekeeper.yaml")
	text = bytes.Replace(text, []byte("../../localstack/e2e/lanekeeper.yaml"), []byte(cfg), 1)
	if err := os.WriteFile(cfg, configuration, 0o600); err != nil {
		return err
	}
	env := d.file("local.yaml")
	if err := os.WriteFile(env, text, 0o600); err != nil {
		return err
	}
	templates := d.file("cdk.out")
	quiet := []string{"JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION=1", "CDK_OUTDIR=" + templates}
	if err := d.command(ctx, nil, "go", "run", "./infra/assemble", "-env", env, "-o", d.file("packages")); err != nil {
		return err
	}
	if err := d.command(ctx, quiet, "build/infra-app", "-env", env, "-packages", d.file("packages")); err != nil {
		return err
	}
	return d.command(ctx, nil, cdkCLI, "deploy", "--app", templates, "--all", "--require-approval", "never", "--outputs-file", d.file("outputs.json"))
}

func (d *deployment) destroy(ctx context.Context) error {
	return d.command(ctx, nil, cdkCLI, "destroy", "--app", d.file("cdk.out"), "--all", "--force")
}

func (d *deployment) lanekeeper(ctx context.Context, args ...string) error {
	return d.command(ctx, nil, "go", append(append([]string{"run", "./cmd/lanekeeper"}, args...), "--env", d.file("local.yaml"))...)
}

// open puts a proxy before the API, which adds the host name by which emulators
// tell APIs apart, and waits for an answer.
func (d *deployment) open(ctx context.Context) error {
	text, err := os.ReadFile(d.file("outputs.json"))
	if err != nil {
		return err
	}
	var outputs map[string]map[string]string
	if err := json.Unmarshal(text, &outputs); err != nil {
		return err
	}
	id := outputs[d.env.Stack("api")]["ApiId"]
	if id == "" {
		return fmt.Errorf("no ApiId among the outputs: %s", text)
	}
	host := id + ".execute-api.localhost:" + d.endpoint.Port()
	d.proxy = httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(d.endpoint)
		r.Out.Host = host
	}})
	d.base = d.proxy.URL
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.base+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("/healthz: %d %s %w", resp.StatusCode, body, err)
	}
	return nil
}
