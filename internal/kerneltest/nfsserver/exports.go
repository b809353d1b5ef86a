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
	noSubtreeCheck = 0x400
	numbered       = 0x2000 // the last field is its number
)

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

// directories exports paths, the first of which is the root of them all. A
// directory's number is its place.
func directories(paths ...string) table {
	t := table{}
	for number, path := range paths {
		flags := insecurePort | noSubtreeCheck | numbered
		if number == 0 {
			flags |= readOnly
		}
		t[domain+" "+quote(path)] = fmt.Sprintf("%d 65534 65534 %d", flags, number)
	}
	return t
}

// handles finds the directory by the number in a file handle, whose type is 1 and
// which is four bytes in this machine's order, as they are on what we run on.
func handles(paths ...string) table {
	t := table{}
	for number, path := range paths {
		t[fmt.Sprintf(`%s 1 \x%02x%02x0000`, domain, number&0xff, number>>8)] = quote(path)
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
