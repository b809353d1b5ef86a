package kubeserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"text/template"
	"time"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// A Node is a node of a [Server]'s cluster: containerd and a kubelet. Its methods must not be called
// concurrently.
type Node struct {
	Name string
	Root string // the kubelet's root directory

	dir        string
	programs   NodePrograms
	containerd *process
	kubelet    *process
}

// StartNode starts a node that ends with the test, in the namespaces of [Isolate]. It returns when
// the kubelet has been started; the API server shows the node half a minute later. Pods need
// hostNetwork, the node's name, the only [Image], and no service account token. If the cache
// lacks the programs (see [FetchNode]), StartNode skips the test, or fails it if VOLUMEKIT_REQUIRE
// names kubelet.
func StartNode(t mounttest.T, s *Server) *Node {
	t.Helper()
	programs, err := FindNode()
	if errors.Is(err, fs.ErrNotExist) {
		mounttest.SkipWithout(t, "kubelet", err)
	}
	if err != nil {
		t.Fatalf("find the programs of a node: %v", err)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Name: "node1", Root: filepath.Join(dir, "kubelet"), dir: dir, programs: programs}
	if err := n.writeFiles(s); err != nil {
		t.Fatalf("write the configuration of a node: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), readyTime)
	defer cancel()
	err = n.startContainerd(ctx)
	if err == nil {
		err = n.StartKubelet()
	}
	if err != nil {
		t.Fatalf("start a node: %v", err)
	}
	t.Cleanup(n.stop)
	return n
}

// nodeFiles are the configuration files of a node. The machine may refuse to lower
// oom_score_adj, so runc gets containers without it; cgroups may be of version 1 and without
// systemd.
var nodeFiles = map[string]string{
	"runc": `#!/bin/sh
bundle= last=
for arg; do
	[ "$last" != --bundle ] || bundle=$arg
	last=$arg
done
[ -z "$bundle" ] || sed -i 's/,"oomScoreAdj":-\{0,1\}[0-9]*//; s/"oomScoreAdj":-\{0,1\}[0-9]*,//' "$bundle/config.json"
exec {{.Runc}} "$@"
`,
	"containerd.toml": `version = 2
root = "{{.Dir}}/containerd/root"
state = "{{.Dir}}/containerd/state"
[grpc]
  address = "{{.Dir}}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.Image}}"
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{{.Dir}}/runc"
  [plugins."io.containerd.grpc.v1.cri".cni]
    conf_dir = "{{.Dir}}/cni"
`,
	"kubeconfig": `apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "{{.URL}}", certificate-authority: "{{.Dir}}/ca.crt"}}]
users: [{name: u, user: {token: "{{.Token}}"}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
`,
	"kubelet.yaml": `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
failCgroupV1: false
containerRuntimeEndpoint: unix://{{.Dir}}/containerd.sock
evictionHard: {memory.available: "50Mi", nodefs.available: "1%", imagefs.available: "1%", nodefs.inodesFree: "1%"}
resolvConf: ""
syncFrequency: 2s
`,
	"ca.crt": `{{.CA}}`,
}

func (n *Node) writeFiles(s *Server) error {
	values := map[string]string{"Dir": n.dir, "Runc": n.programs.Runc, "Image": Image, "URL": s.URL, "Token": s.Token, "CA": string(s.CA)}
	for name, text := range nodeFiles {
		parsed, err := template.New(name).Parse(text)
		if err != nil {
			return err
		}
		var file bytes.Buffer
		if err := parsed.Execute(&file, values); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(n.dir, name), file.Bytes(), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		os.Mkdir(n.Root, 0o750), os.Mkdir(filepath.Join(n.dir, "cni"), 0o755), os.MkdirAll("/run/containerd", 0o755),
		writeImage(filepath.Join(n.dir, "image.tar"), n.programs.Busybox))
}

// startContainerd starts containerd and imports the image. containerd finds its shim and runc
// by PATH.
func (n *Node) startContainerd(ctx context.Context) (err error) {
	path := filepath.Dir(n.programs.Containerd) + ":" + filepath.Dir(n.programs.Runc)
	if err := os.Setenv("PATH", path+":"+os.Getenv("PATH")); err != nil {
		return err
	}
	n.containerd, err = startProcess(n.dir, n.programs.Containerd, "-c", filepath.Join(n.dir, "containerd.toml"))
	if err != nil {
		return err
	}
	for {
		cmd := exec.CommandContext(ctx, n.programs.Ctr, "-a", filepath.Join(n.dir, "containerd.sock"), "-n", "k8s.io",
			"images", "import", filepath.Join(n.dir, "image.tar"))
		output, err := cmd.CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("import the image: %w: %s: %s", err, output, n.containerd.lastMessages())
		case <-n.containerd.ended:
			return fmt.Errorf("containerd has ended: %s", n.containerd.lastMessages())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// StartKubelet starts the kubelet if it does not run.
func (n *Node) StartKubelet() (err error) {
	if n.kubelet != nil {
		return nil
	}
	n.kubelet, err = startProcess(n.dir, n.programs.Kubelet, "--config=kubelet.yaml", "--kubeconfig=kubeconfig",
		"--root-dir="+n.Root, "--hostname-override="+n.Name, "--node-ip="+nodeAddress)
	return err
}

// StopKubelet kills the kubelet if it runs. Containers and mounts stay.
func (n *Node) StopKubelet() {
	n.kubelet.kill()
	n.kubelet = nil
}

// Messages returns the last messages of the kubelet and of containerd, for failures.
func (n *Node) Messages() string {
	text := "containerd: " + n.containerd.lastMessages()
	if n.kubelet != nil {
		text += "\nkubelet: " + n.kubelet.lastMessages()
	}
	return text
}

// stop kills both programs, and, in the PID namespace of [Isolate], all others there, and unmounts
// the rest: a test that has failed leaves containers.
func (n *Node) stop() {
	n.StopKubelet()
	n.containerd.kill()
	if os.Getpid() != 1 {
		return
	}
	_ = syscall.Kill(-1, syscall.SIGKILL)
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], n.dir+"/") {
			_ = syscall.Unmount(fields[4], syscall.MNT_DETACH)
		}
	}
}
