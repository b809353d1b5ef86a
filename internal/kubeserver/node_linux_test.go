package kubeserver

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// containerdScript mounts, and leaves a process of another session, as a shim does.
const containerdScript = `#!/bin/sh
setsid sleep 1000 &
mkdir -p rootfs && mount -t tmpfs one rootfs && mkdir rootfs/in && mount -t tmpfs two rootfs/in
`

// TestNodeStops: whichever step of the start of a node fails, no process and no mount is left.
func TestNodeStops(t *testing.T) {
	if !Isolate(t) {
		return
	}
	const importWorks = "#!/bin/sh\ngrep -q rootfs/in /proc/self/mountinfo\n"
	for name, test := range map[string]struct {
		containerd, ctr, kubelet string // scripts; "": no file
		fails                    string // part of the error
	}{
		"no step":            {containerdScript + "sleep 1000\n", importWorks, "#!/bin/sh\nsleep 1000 &\nsleep 1000\n", ""},
		"no containerd":      {"", "", "", "start containerd: "},
		"containerd ends":    {containerdScript + "exit 1\n", "#!/bin/sh\nexit 1\n", "", "containerd has ended"},
		"import of an image": {containerdScript + "sleep 1000\n", "#!/bin/sh\ngrep -q rootfs/in /proc/self/mountinfo\nexit 1\n", "", "import the image: "},
		"no kubelet":         {containerdScript + "sleep 1000\n", importWorks, "", "start kubelet: "},
	} {
		t.Run(name, func(t *testing.T) {
			bin, dir := t.TempDir(), t.TempDir()
			n := &Node{Root: filepath.Join(dir, "kubelet"), dir: dir, programs: NodePrograms{
				Kubelet: filepath.Join(bin, "kubelet"), Containerd: filepath.Join(bin, "containerd"), Ctr: filepath.Join(bin, "ctr"),
				Runc: filepath.Join(bin, "runc"), Busybox: filepath.Join(bin, "busybox"),
			}}
			for file, script := range map[string]string{"containerd": test.containerd, "ctr": test.ctr, "kubelet": test.kubelet, "busybox": "x"} {
				if script != "" {
					require.NoError(t, os.WriteFile(filepath.Join(bin, file), []byte(script), 0o755))
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { // the import is tried until ctx ends
				for len(mountsBelow(dir)) < 2 && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				if test.fails == "import the image: " {
					cancel()
				}
			}()
			err := n.start(ctx, &Server{})
			if test.fails == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.fails)
			}
			require.NoError(t, n.stop())
			require.Empty(t, otherProcesses())
			require.Empty(t, mountsBelow(dir))
			require.NoError(t, n.stop(), "a second stop")
		})
	}
}
