package nfsserver

import (
	"fmt"
	"strings"
)

// domain is the name of all clients in the kernel's caches.
const domain = "test"

// Flags of an exported directory, from linux/nfsd/export.h.
const (
	readOnly       = 0x1
	insecurePort   = 0x2
	squashRoot     = 0x4
	noSubtreeCheck = 0x400
	numbered       = 0x2000 // the last field is the file system ID
)

// An Export is a directory that clients can mount, at the same path.
type Export struct {
	Dir        string // an absolute path in a file system that can be exported
	ReadOnly   bool   // writing fails with EROFS
	SquashRoot bool   // the root user of clients becomes AnonymousID

	revoked bool // it keeps its number
}

// AnonymousID is the user ID and the group ID that the server gives to the root user of clients; see
// exports(5), anonuid.
const AnonymousID = 65534

func (e Export) flags() int {
	flags := insecurePort | noSubtreeCheck | numbered
	if e.ReadOnly {
		flags |= readOnly
	}
	if e.SquashRoot {
		flags |= squashRoot
	}
	return flags
}

// A table holds the entries of one of the kernel's caches: questions and answers in the
// kernel's form, with the answer's time of expiry between them.
type table map[string]string

// line answers a question; an unknown one negatively.
func (t table) line(question string, expires int64) string {
	line := fmt.Sprintf("%s %d", question, expires)
	if answer := t[question]; answer != "" {
		line += " " + answer
	}
	return line + "\n"
}

// clients admits the addresses.
func clients(addresses ...string) table {
	t := table{}
	for _, address := range addresses {
		t["nfsd "+address] = domain
	}
	return t
}

// directories lists the exports, the first of them the root of all. A directory's number is
// its index.
func directories(exports ...Export) table {
	t := table{}
	for number, e := range exports {
		if !e.revoked {
			t[domain+" "+quote(e.Dir)] = fmt.Sprintf("%d %d %d %d", e.flags(), AnonymousID, AnonymousID, number)
		}
	}
	return t
}

// handles maps the number in a file handle to a directory. The handle's type is 1; the
// number has four bytes in the machine's order.
func handles(exports ...Export) table {
	t := table{}
	for number, e := range exports {
		if !e.revoked {
			t[fmt.Sprintf(`%s 1 \x%02x%02x0000`, domain, number&0xff, number>>8)] = quote(e.Dir)
		}
	}
	return t
}

// quote escapes a path as the kernel does.
func quote(path string) string {
	var b strings.Builder
	for _, c := range []byte(path) {
		if c <= ' ' || c >= 0x7f || c == '\\' {
			_, _ = fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
