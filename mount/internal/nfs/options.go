package nfs

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/options"
)

// versions are the attempts if the options name no version: the first one that client and
// server both have is the best.
var versions = []string{"vers=4.2", "vers=4.1", "vers=4.0"}

// versionsFor returns the version of each attempt: "" if the options name one.
func versionsFor(o options.Options) []string {
	for _, option := range o.Data {
		key, _, _ := strings.Cut(option, "=")
		if key == "vers" || key == "nfsvers" || len(key) > 1 && key[0] == 'v' && key[1] >= '0' && key[1] <= '9' {
			return []string{""}
		}
	}
	return versions
}

// withAddresses returns the options with the version, if any, and the addresses of server and
// client. The kernel requires the addresses; the helper mount.nfs would add them.
func withAddresses(o options.Options, version string, server, client netip.Addr) options.Options {
	o.Data = slices.Clone(o.Data)
	if version != "" {
		o.Data = append(o.Data, version)
	}
	o.Data = append(o.Data, "addr="+server.String())
	if client.IsValid() {
		o.Data = append(o.Data, "clientaddr="+client.String())
	}
	return o
}

const defaultPort = 2049

// tcpPort returns the port of the server, if the options ask for TCP.
func tcpPort(o options.Options) (port uint16, ok bool) {
	port = defaultPort
	for _, option := range o.Data {
		key, value, _ := strings.Cut(option, "=")
		switch {
		case key == "rdma", key == "udp", key == "proto" && !strings.HasPrefix(value, "tcp"):
			return 0, false
		case key == "port":
			n, err := strconv.ParseUint(value, 10, 16)
			if err != nil {
				return 0, false
			}
			if n != 0 {
				port = uint16(n)
			}
		}
	}
	return port, true
}
