package nfs

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A value is the kind of value that an option of nfs(5) has after its "=".
type value struct {
	least, most uint64   // a number
	words       []string // or one of these words
	list        bool     // several words, with colons between
	none        bool     // or no value: for a flag always
	any         bool     // or any text
}

var (
	flag   = value{none: true}
	count  = value{most: math.MaxInt32}
	period = count                     // of time, in the unit of the man page
	port   = number1to(math.MaxUint16) // 0 would query the server's rpcbind
	label  = value{any: true}          // a label, which the mounter checks
)

func number1to(most uint64) value      { return value{least: 1, most: most} }
func oneOfWords(words ...string) value { return value{words: words} }

// allowed are the options that a volume may have besides the mount flags of every file
// system. Excluded are options that name another server than the volume's source (addr,
// mounthost, ...), or that hide mistakes (sloppy).
var allowed = map[string]value{
	"sync": flag, "async": flag, "dirsync": flag,

	"hard": flag, "soft": flag, "softerr": flag,
	"softreval": flag, "nosoftreval": flag,
	"intr": flag, "nointr": flag, "fg": flag, "bg": flag,
	"timeo": number1to(math.MaxInt32), "retrans": count, "retry": count,
	"fatal_neterrors": {words: []string{"default", "none", "ENETDOWN", "ENETUNREACH"}, list: true},

	"vers": oneOfWords("3", "4", "4.0", "4.1", "4.2"), "nfsvers": oneOfWords("3", "4", "4.0", "4.1", "4.2"),
	"minorversion": {most: 2},
	"v3":           flag, "v4": flag, "v4.0": flag, "v4.1": flag, "v4.2": flag,

	"proto": oneOfWords("tcp", "tcp6", "udp", "udp6", "rdma", "rdma6"),
	"tcp":   flag, "udp": flag, "rdma": flag, "port": port,
	"nconnect": number1to(16), "max_connect": number1to(16),
	"trunkdiscovery": flag, "notrunkdiscovery": flag,
	"resvport": flag, "noresvport": flag,
	"rsize": count, "wsize": count, "bsize": count, "namlen": count,
	"mountport": port, "mountproto": oneOfWords("tcp", "tcp6", "udp", "udp6"), "mountvers": number1to(3),
	"xprtsec": oneOfWords("none", "tls", "mtls"),

	"ac": flag, "noac": flag, "actimeo": period,
	"acregmin": period, "acregmax": period, "acdirmin": period, "acdirmax": period,
	"cto": flag, "nocto": flag,
	"lookupcache": oneOfWords("all", "none", "pos", "positive"),
	"fsc":         flag, "nofsc": flag,
	"sharecache": flag, "nosharecache": flag,
	"rdirplus": {words: []string{"none", "force"}, none: true}, "nordirplus": flag,
	"write":      oneOfWords("lazy", "eager", "wait"),
	"alignwrite": flag, "noalignwrite": flag,

	"lock": flag, "nolock": flag, "local_lock": oneOfWords("all", "flock", "posix", "none"),
	"sec": {words: []string{"none", "sys", "krb5", "krb5i", "krb5p"}, list: true},
	"acl": flag, "noacl": flag, "migration": flag, "nomigration": flag, "posix": flag,

	"context": label, "fscontext": label, "defcontext": label, "rootcontext": label,
}

// subjects groups options with different names that concern one subject: two options of
// one subject contradict each other.
var subjects = map[string]string{
	"hard": "recovery", "soft": "recovery", "softerr": "recovery",
	"vers": "version", "nfsvers": "version", "v3": "version", "v4": "version",
	"v4.0": "version", "v4.1": "version", "v4.2": "version",
	"proto": "protocol", "tcp": "protocol", "udp": "protocol", "rdma": "protocol",
}

// check returns the fault of an option, or "".
func check(option string) string {
	key, text, has := strings.Cut(option, "=")
	v, ok := allowed[key]
	switch {
	case !ok:
		return "unknown or refused option of NFS volumes"
	case !has && !v.none:
		return "needs a value"
	case has && v.none && v.words == nil:
		return "must have no value"
	case has:
		return v.check(text)
	}
	return ""
}

func (v value) check(text string) string {
	switch {
	case v.any:
		return ""
	case v.words == nil:
		return v.checkNumber(text)
	}
	words := []string{text}
	if v.list {
		words = strings.Split(text, ":")
	}
	for _, word := range words {
		if !slices.Contains(v.words, word) {
			return "must be one of " + strings.Join(v.words, ", ")
		}
	}
	return ""
}

// checkNumber accepts a decimal number: a leading zero would make another number
// of it for the kernel.
func (v value) checkNumber(text string) string {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != text || n < v.least || n > v.most {
		return "must be a number from " + strconv.FormatUint(v.least, 10) + " to " + strconv.FormatUint(v.most, 10)
	}
	return ""
}
