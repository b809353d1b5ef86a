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
	"slices"
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
	// Address of the node, at which the kubelet serves https on port 10250, for all without a name.
	Address string

	dir        string
	programs   NodePrograms
	containerd *Process
	kubelet    *Process
}

// StartNode starts a node that ends with the test, in the namespaces of [Isolate]. It returns when
// the kubelet has been started; the API server shows the node half a minute later. Pods need
// hostNetwork, the node's name, the only [Image], and no automatic service account token. If the cache
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
	n := &Node{Name: "node1", Address: nodeAddress, Root: filepath.Join(dir, "kubelet"), dir: dir, programs: programs}
	t.Cleanup(func() { // also after a step that fails
		if err := n.stop(); err != nil {
			t.Error("stop a node:", err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), readyTime)
	defer cancel()
	if err := n.start(ctx, s); err != nil {
		t.Fatalf("start a node: %v", err)
	}
	return n
}

// start writes the files of the node, and starts containerd and the kubelet. After an error, stop ends
// the parts that have started.
func (n *Node) start(ctx context.Context, s *Server) error {
	if os.Getpid() != 1 {
		return errors.New("requires the namespaces of Isolate")
	}
	if err := n.writeFiles(s); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	if err := n.startContainerd(ctx); err != nil {
		return err
	}
	return n.StartKubelet()
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
volumeStatsAggPeriod: 2s
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
		WriteImage(filepath.Join(n.dir, "image.tar"), n.programs.Busybox))
}

// startContainerd starts containerd and imports the image. containerd finds its shim and runc
// by PATH.
func (n *Node) startContainerd(ctx context.Context) (err error) {
	path := filepath.Dir(n.programs.Containerd) + ":" + filepath.Dir(n.programs.Runc)
	if err := os.Setenv("PATH", path+":"+os.Getenv("PATH")); err != nil {
		return err
	}
	n.containerd, err = StartProcess(n.dir, n.programs.Containerd, "-c", filepath.Join(n.dir, "containerd.toml"))
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
			return fmt.Errorf("import the image: %w: %s: %s", err, output, n.containerd.LastMessages())
		case <-n.containerd.Ended:
			return fmt.Errorf("containerd has ended: %s", n.containerd.LastMessages())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// StartKubelet starts the kubelet if it does not run.
func (n *Node) StartKubelet() (err error) {
	if n.kubelet != nil {
		return nil
	}
	n.kubelet, err = StartProcess(n.dir, n.programs.Kubelet, "--config=kubelet.yaml", "--kubeconfig=kubeconfig",
		"--root-dir="+n.Root, "--hostname-override="+n.Name, "--node-ip="+nodeAddress)
	return err
}

// StopKubelet kills the kubelet if it runs. Containers and mounts stay.
func (n *Node) StopKubelet() {
	n.kubelet.Kill()
	n.kubelet = nil
}

// Messages returns the last messages of the kubelet and of containerd, for failures.
func (n *Node) Messages() string {
	text := "containerd: " + n.containerd.LastMessages()
	if n.kubelet != nil {
		text += "\nkubelet: " + n.kubelet.LastMessages()
	}
	return text
}

// stop kills the kubelet, then containerd, which the kubelet uses, then all other processes of the PID
// namespace of [Isolate], such as containers and the server of the node, and unmounts all below the
// directory of the node. A node that has started in part, or not at all, is stopped as well. It
// returns an error if a process or a mount remains.
func (n *Node) stop() error {
	n.StopKubelet()
	n.containerd.Kill()
	n.containerd = nil
	return EndNamespaces(n.dir)
}

// EndNamespaces kills all other processes of the PID namespace of [Isolate], and unmounts all below a directory. It
// returns an error if a process or a mount remains. Outside of the namespaces it does nothing.
func EndNamespaces(dir string) error {
	if os.Getpid() != 1 {
		return nil
	}
	return errors.Join(killOthers(), unmountBelow(dir))
}

// killOthers kills all processes of the PID namespace but the own one, its first process, and
// returns after their end.
func killOthers() error {
	for end := time.Now().Add(readyTime); ; time.Sleep(10 * time.Millisecond) {
		_ = syscall.Kill(-1, syscall.SIGKILL) // ESRCH: no other process
		others := otherProcesses()
		if len(others) == 0 {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("kill processes %v: still running after %v", others, readyTime)
		}
	}
}

// otherProcesses returns the IDs of the other processes in /proc that have not ended.
func otherProcesses() (ids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is valid
	for _, file := range files {
		stat, err := os.ReadFile(file)
		id := filepath.Base(filepath.Dir(file))
		if err == nil && id != fmt.Sprint(os.Getpid()) && !bytes.Contains(stat, []byte(") Z ")) {
			ids = append(ids, id)
		}
	}
	return ids
}

// unmountBelow unmounts all mounts below a directory, the last one first.
func unmountBelow(dir string) error {
	for _, point := range slices.Backward(mountsBelow(dir)) {
		_ = syscall.Unmount(point, syscall.MNT_DETACH) // a shared copy may be gone already
	}
	if left := mountsBelow(dir); len(left) > 0 {
		return fmt.Errorf("unmount %v: still mounted", left)
	}
	return nil
}

// mountsBelow returns the mount points below a directory, in the order of the mount table. The names
// in a temporary directory need no decoding.
func mountsBelow(dir string) (points []string) {
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); strings.HasPrefix(fields[4], dir+"/") {
			points = append(points, fields[4])
		}
	}
	return points
}
