package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// findMountInProcesses returns a process whose mount namespace has a mount of the volume; 0: none. It reads the main
// thread of one process for each pair of a namespace and a root directory: a process sees the mounts below its root. It
// must be able to read all processes (CAP_SYS_PTRACE).
func findMountInProcesses(want mountIdentity) (process int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	seen := map[string]bool{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		base := "/proc/" + entry.Name()
		namespace, err := os.Readlink(base + "/ns/mnt")
		var root string
		if err == nil {
			root, err = os.Readlink(base + "/root")
		}
		if err == nil && seen[namespace+root] {
			continue
		}
		var table []byte
		if err == nil {
			table, err = os.ReadFile(base + "/mountinfo")
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EINVAL): // it has ended
			continue
		case err != nil:
			return 0, err
		}
		seen[namespace+root] = true
		if want.isIn(string(table)) {
			return pid, nil
		}
	}
	return 0, nil
}

// withPeer returns a context for the calls of a connection, with the process of the peer: none if it is in another PID
// namespace.
func withPeer(ctx context.Context, connection net.Conn) context.Context {
	socket, ok := connection.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return ctx
	}
	var peer *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) { peer, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if errors.Join(err, failed) != nil || peer.Pid == 0 {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, fmt.Sprintf("%d:%s", peer.Pid, startOf(int(peer.Pid))))
}

// startOf returns the time at which a process has started, in ticks since that of the system: proc_pid_stat(5).
func startOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	const start = 22 - 3 // from the field after the name, which may have blanks
	_, rest, _ := strings.Cut(string(text), ") ")
	if fields := strings.Fields(rest); len(fields) > start {
		return fields[start]
	}
	return ""
}
