package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestNFSService: with the rights of the unit the program makes a volume in an export, mounts it, and deletes it.
func TestNFSService(t *testing.T) {
	export, dir := testbed.Dir(t), testbed.Dir(t)
	server := nfsserver.Start(t, export)
	self, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	args := append(rights(t), self, "-server="+server.Address, "-path="+export, "-size=8Mi", "-state="+dir+"/state", "-socket="+dir+"/s")
	program := exec.CommandContext(t.Context(), "setpriv", args...)
	program.Env, program.Stderr = mounttest.Program(programName).Env, os.Stderr
	require.NoError(t, program.Start())
	t.Cleanup(func() {
		_ = program.Process.Kill()
		_ = program.Wait()
	})
	daemon := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", dir+"/s")
	}}}
	call := func(name, body string) string {
		resp, err := daemon.Post("http://driver/VolumeDriver."+name, "", strings.NewReader(body))
		if err != nil {
			return err.Error()
		}
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return string(text)
	}
	const done = "{\"Err\":\"\"}\n"
	require.Eventually(t, func() bool { return strings.Contains(call("Capabilities", ""), "local") }, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, done, call("Create", `{"Name": "data", "Opts": {"mode": "0750", "uid": "1000", "gid": "1000"}}`))
	require.Contains(t, call("Mount", `{"Name": "data", "ID": "a"}`), `"Err":""`)
	at := dir + "/state/plugins/volumekit.io/docker/volumekit/mounts/data"
	var st unix.Stat_t
	require.NoError(t, unix.Stat(at, &st))
	require.Equal(t, []uint32{1000, 1000, unix.S_IFDIR | 0o750}, []uint32{st.Uid, st.Gid, st.Mode})
	require.NoError(t, os.MkdirAll(at+"/a/b", 0o700))
	require.NoError(t, os.WriteFile(at+"/a/b/file", []byte("data"), 0o600))
	entries, err := os.ReadDir(export)
	require.NoError(t, err)
	require.NotEmpty(t, entries)
	require.Equal(t, done, call("Unmount", `{"Name": "data", "ID": "a"}`))
	require.Equal(t, done, call("Remove", `{"Name": "data"}`))
	entries, err = os.ReadDir(export)
	require.NoError(t, err)
	for _, entry := range entries {
		require.Equal(t, ".volumekit", entry.Name())
	}
}
