package mount

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// nfsHost returns the server of an NFS source: "server:/export",
// "[2001:db8::1]:/export".
func nfsHost(source string) (string, error) {
	host, export, found := strings.Cut(source, ":/")
	if rest, ok := strings.CutPrefix(source, "["); ok {
		host, export, found = strings.Cut(rest, "]:/")
	}
	switch {
	case !found || host == "":
		return "", inputError("Source", source, "not a server and an export, server:/path")
	case strings.ContainsFunc(source, unicode.IsControl):
		return "", inputError("Source", source, "a source of NFS holds no control characters")
	case strings.ContainsAny(host, "/,[] ") || strings.HasPrefix(host, "-"):
		return "", inputError("Source", source, "not the name or address of a server")
	case slices.Contains(strings.Split(export, "/"), ".."):
		return "", inputError("Source", source, `the export must not contain ".."`)
	case strings.Contains(host, ":"):
		if _, err := netip.ParseAddr(host); err != nil {
			return "", inputError("Source", source, "not the address of a server")
		}
	}
	return host, nil
}

// nfsVersions are tried in turn, unless the options name one: the newest that both
// sides have is the best that they can do. (Version 3 takes further programs.)
var nfsVersions = []string{"vers=4.2", "vers=4.1", "vers=4.0"}

// versionsToTry returns the options to add, one for each try.
func versionsToTry(o Options) []string {
	for _, option := range o.Data {
		key, _, _ := strings.Cut(option, "=")
		if key == "vers" || key == "nfsvers" || len(key) > 1 && key[0] == 'v' && key[1] >= '0' && key[1] <= '9' {
			return []string{""}
		}
	}
	return nfsVersions
}

// withNFS adds what the kernel must be told and a program would find out.
func (o Options) withNFS(version string, server, client netip.Addr) Options {
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

const defaultNFSPort = 2049

// nfsPort returns the port at which a server is to be found by TCP, if it is.
func nfsPort(o Options) (port uint16, ok bool) {
	port = defaultNFSPort
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
