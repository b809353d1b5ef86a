package nfs

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A value is what an option of nfs(5) takes after its "=".
type value struct {
	least, most uint64   // a number
	words       []string // or one of these words
	list        bool     // several of them, with colons between
	none        bool     // or nothing at all
}

var (
	flag   = value{none: true}
	count  = value{most: math.MaxInt32}
	period = count                     // of time; the man page says in which unit
	port   = number1to(math.MaxUint16) // 0 asks a program of the server's for it
)

func number1to(most uint64) value { return value{least: 1, most: most} }
func oneOf(words ...string) value { return value{words: words} }

// allowed are the options that a volume may have besides the flags that a mount of
// any file system has. Left out are the ones that say who the server is besides the
// volume's own source (addr, mounthost, ...), that outlive the call (bg), or that
// hide mistakes (sloppy).
var allowed = map[string]value{
	"sync": flag, "async": flag, "dirsync": flag,

	"hard": flag, "soft": flag, "softerr": flag,
	"softreval": flag, "nosoftreval": flag,
	"intr": flag, "nointr": flag, "fg": flag,
	"timeo": number1to(math.MaxInt32), "retrans": count, "retry": count,
	"fatal_neterrors": {words: []string{"default", "none", "ENETDOWN", "ENETUNREACH"}, list: true},

	"vers": oneOf("3", "4", "4.0", "4.1", "4.2"), "nfsvers": oneOf("3", "4", "4.0", "4.1", "4.2"),
	"minorversion": {most: 2},
	"v3":           flag, "v4": flag, "v4.0": flag, "v4.1": flag, "v4.2": flag,

	"proto": oneOf("tcp", "tcp6", "udp", "udp6", "rdma", "rdma6"),
	"tcp":   flag, "udp": flag, "rdma": flag, "port": port,
	"nconnect": number1to(16), "max_connect": number1to(16),
	"trunkdiscovery": flag, "notrunkdiscovery": flag,
	"resvport": flag, "noresvport": flag,
	"rsize": count, "wsize": count, "bsize": count, "namlen": count,
	"mountport": port, "mountproto": oneOf("tcp", "tcp6", "udp", "udp6"), "mountvers": number1to(3),
	"xprtsec": oneOf("none", "tls", "mtls"),

	"ac": flag, "noac": flag, "actimeo": period,
	"acregmin": period, "acregmax": period, "acdirmin": period, "acdirmax": period,
	"cto": flag, "nocto": flag,
	"lookupcache": oneOf("all", "none", "pos", "positive"),
	"fsc":         flag, "nofsc": flag,
	"sharecache": flag, "nosharecache": flag,
	"rdirplus": {words: []string{"none", "force"}, none: true}, "nordirplus": flag,
	"write":      oneOf("lazy", "eager", "wait"),
	"alignwrite": flag, "noalignwrite": flag,

	"lock": flag, "nolock": flag, "local_lock": oneOf("all", "flock", "posix", "none"),
	"sec": {words: []string{"none", "sys", "krb5", "krb5i", "krb5p"}, list: true},
	"acl": flag, "noacl": flag, "migration": flag, "nomigration": flag, "posix": flag,
}

// subjects are what several options with different names make statements about: two
// on one subject contradict each other.
var subjects = map[string]string{
	"hard": "recovery", "soft": "recovery", "softerr": "recovery",
	"vers": "version", "nfsvers": "version", "v3": "version", "v4": "version",
	"v4.0": "version", "v4.1": "version", "v4.2": "version",
	"proto": "protocol", "tcp": "protocol", "udp": "protocol", "rdma": "protocol",
}

// check returns what is wrong with an option, or nothing.
func check(option string) string {
	key, text, has := strings.Cut(option, "=")
	v, ok := allowed[key]
	switch {
	case !ok:
		return "not an option that an NFS volume may have"
	case !has && !v.none:
		return "this option takes a value"
	case has && v.none && v.words == nil:
		return "this option takes no value"
	case has:
		return v.check(text)
	}
	return ""
}

func (v value) check(text string) string {
	if v.words == nil {
		return v.checkNumber(text)
	}
	words := []string{text}
	if v.list {
		words = strings.Split(text, ":")
	}
	for _, word := range words {
		if !slices.Contains(v.words, word) {
			return "one of " + strings.Join(v.words, ", ") + " is needed"
		}
	}
	return ""
}

// checkNumber accepts a decimal number: a leading zero would make another number
// of it for the kernel.
func (v value) checkNumber(text string) string {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || strconv.FormatUint(n, 10) != text || n < v.least || n > v.most {
		return "a number from " + strconv.FormatUint(v.least, 10) + " to " + strconv.FormatUint(v.most, 10) + " is needed"
	}
	return ""
}
