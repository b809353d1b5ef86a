package docker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/flexvolume"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestContract: directories that the driver serves keep the contract of plugins. A Flexvolume driver plays the daemon and
// its container runtime: it mounts a volume of the driver, and binds it at the directory of a pod, whose mount is the
// container. The driver is restarted whenever the plugin is.
func TestContract(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts some hundred processes")
	}
	if !mounttest.Namespace(t) {
		return
	}
	r := newLocalRig(t)
	r.stop()
	drivers, shares, state := r.dir+"/drivers", r.dir+"/shares", r.dir+"/containers"
	executable := drivers + "/example.com~docker/docker"
	require.NoError(t, os.MkdirAll(filepath.Dir(executable), 0o755))
	require.NoError(t, os.Mkdir(state, 0o755))
	self, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(executable, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' \"$@\"\n", self), 0o755))
	program := mounttest.Program("containers").Env
	env := []string{program[len(program)-1], "SOCKET=" + r.dir + "/s", "SHARES=" + shares, "STATE=" + state}

	newSpec := func(t *testing.T) *volume.Spec {
		dir, err := os.MkdirTemp(shares, "share")
		require.NoError(t, err)
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: filepath.Base(dir)}}
		pv.Spec.FlexVolume = &v1.FlexPersistentVolumeSource{Driver: "example.com/docker"}
		return volume.NewSpecFromPersistentVolume(pv, false)
	}
	volumetest.TestPlugin(t, volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			r.restart()
			return flexvolume.New(flexvolume.Config{Driver: "example.com/docker", Dir: drivers, Mounter: m, Env: env})
		},
		NewMounter: func(*testing.T) mount.Interface { return mount.New(mount.Config{}) },
		Spec:       newSpec,
		ReadOnlySpec: func(t *testing.T) *volume.Spec {
			spec := newSpec(t)
			spec.PersistentVolume.Spec.FlexVolume.ReadOnly = true
			return spec
		},
		Backing:         func(spec *volume.Spec) string { return filepath.Join(shares, spec.Name()) },
		NoBlock:         true,
		RuntimeReadOnly: true,
		SELinuxRelabel:  true,
		Arguments:       volumetest.Arguments{FsGroup: volumetest.Honoured},
	})
	require.Empty(t, r.names(), "a volume has a user")
	require.Empty(t, r.records())
}

// runContainers is a Flexvolume driver whose volumes are shares of the driver at $SOCKET, by their names.
func runContainers(p mounttest.Process) {
	answer := map[string]any{"status": "Success"}
	err := errors.ErrUnsupported
	switch p.Args[0] {
	case "init":
		answer["capabilities"], err = map[string]bool{"attach": false, "supportsMetrics": true}, nil
	case "mount":
		var options map[string]string
		require.NoError(p, json.Unmarshal([]byte(p.Args[2]), &options))
		err = newContainer(p.Args[1]).start(options["kubernetes.io/pvOrVolumeName"], options["kubernetes.io/readwrite"] == "ro")
	case "unmount":
		err = newContainer(p.Args[1]).end()
	case "expandvolume":
		answer["volumeNewSize"], err = 2<<30, nil // what the contract asks for: Docker's protocol has no such call
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		answer["status"] = "Not supported"
	case err != nil:
		answer["status"], answer["message"] = "Failure", err.Error()
	}
	require.NoError(p, json.NewEncoder(os.Stdout).Encode(answer))
}

// A container has a volume at a path. Its ID is made of the path; the file has the volume's name.
type container struct{ path, id, file string }

func newContainer(path string) container {
	id := fmt.Sprintf("%x", sha256.Sum256([]byte(path)))
	return container{path, id, filepath.Join(os.Getenv("STATE"), id)}
}

// start does what a daemon does: it creates the volume if it is missing, mounts it, and binds it in the container.
func (c container) start(name string, readOnly bool) (err error) {
	if err := os.WriteFile(c.file, []byte(name), 0o600); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.end())
		}
	}()
	options := map[string]string{"share": filepath.Join(os.Getenv("SHARES"), name)}
	if _, err := ask("Create", request{Name: name, Opts: options}); err != nil {
		return err
	}
	mounted, err := ask("Mount", request{Name: name, ID: c.id})
	if err != nil {
		return err
	}
	if err := unix.Mount(mounted.Mountpoint, c.path, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if readOnly {
		return unix.Mount("", c.path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
	}
	return nil
}

// end undoes start. A volume without users is removed.
func (c container) end() error {
	name, err := os.ReadFile(c.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := unix.Unmount(c.path, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
		return err
	}
	if _, err := ask("Unmount", request{Name: string(name), ID: c.id}); err != nil {
		return err
	}
	if _, err := ask("Remove", request{Name: string(name)}); err != nil && !isInUse(err) {
		return err
	}
	return os.Remove(c.file)
}

func isInUse(err error) bool { return strings.Contains(err.Error(), errInUse.Error()) }

// ask makes a call of the protocol.
func ask(name string, q request) (answer response, err error) {
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", os.Getenv("SOCKET"))
	}}}
	body, err := json.Marshal(q)
	if err != nil {
		return answer, err
	}
	resp, err := client.Post("http://driver/VolumeDriver."+name, "", bytes.NewReader(body))
	if err != nil {
		return answer, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return answer, err
	}
	if answer.Err != "" {
		return answer, errors.New(answer.Err)
	}
	return answer, nil
}
