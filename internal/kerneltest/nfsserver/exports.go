package nfsserver

import (
	"fmt"
	"strings"
)

// domain is what we call the clients, all of them.
const domain = "test"

// Flags of an exported directory, from linux/nfsd/export.h.
const (
	readOnly       = 0x1
	insecurePort   = 0x2
	squashRoot     = 0x4
	noSubtreeCheck = 0x400
	numbered       = 0x2000 // the last field is its number
)

// An Export is a directory that clients can mount, at the same path.
type Export struct {
	Dir        string // an absolute path in a file system that can be exported
	ReadOnly   bool   // nobody may write: EROFS
	SquashRoot bool   // a client's root is Nobody here

	revoked bool // its number stays its own
}

// Nobody is the user, and the group, of whom the server does not trust.
const Nobody = 65534

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

// A table is what we have to say in one of the kernel's caches: questions and their
// answers, in the kernel's form. Between them goes the time when the answer expires.
type table map[string]string

// line answers a question. What the table does not know is not to be had.
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

// directories is what there is, the first of it the root of all. A directory's
// number is its place.
func directories(exports ...Export) table {
	t := table{}
	for number, e := range exports {
		if !e.revoked {
			t[domain+" "+quote(e.Dir)] = fmt.Sprintf("%d %d %d %d", e.flags(), Nobody, Nobody, number)
		}
	}
	return t
}

// handles finds the directory by the number in a file handle, whose type is 1 and
// which is four bytes in this machine's order, as they are on what we run on.
func handles(exports ...Export) table {
	t := table{}
	for number, e := range exports {
		if !e.revoked {
			t[fmt.Sprintf(`%s 1 \x%02x%02x0000`, domain, number&0xff, number>>8)] = quote(e.Dir)
		}
	}
	return t
}

// quote writes a path as the kernel does.
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
