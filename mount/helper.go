package mount

import (
	"fmt"
	"strings"
	"unicode"
)

// A HelperError is a program for mounting that is missing (exec.ErrNotFound), or
// that failed.
type HelperError struct {
	Helper string // its path, or its name if it is missing
	Output string // what it printed, shortened, without secrets
	Err    error  // why: an *exec.ExitError, exec.ErrNotFound, the cause of a context
}

// Error names the program, what is wrong, and what it said.
func (e *HelperError) Error() string {
	if e.Output == "" {
		return fmt.Sprintf("%s: %v", e.Helper, e.Err)
	}
	return fmt.Sprintf("%s: %v: %s", e.Helper, e.Err, e.Output)
}

// Unwrap returns the cause.
func (e *HelperError) Unwrap() error { return e.Err }

// networkTypes are mounted by a program where there is one. Whether the kernel
// can do without is true for those that it can be told everything about.
var networkTypes = map[string]struct{ kernelCan bool }{
	"nfs": {true}, "nfs4": {true},
	"cifs": {}, "smb3": {}, "ceph": {}, "glusterfs": {},
}

func isNFS(fsType string) bool { return fsType == "nfs" || fsType == "nfs4" }

// helperDirs are where distributions put them.
var helperDirs = []string{"/sbin", "/usr/sbin", "/bin", "/usr/bin"}

// isMountOf reports whether a file system in the mount table is what a request
// asks for: some types go by several names, and so do some sources.
func isMountOf(info Info, req Request) bool {
	return isOfType(info.FSType, req.FSType) && isFrom(info.Source, req)
}

func isOfType(have, want string) bool {
	switch {
	case isNFS(want):
		return isNFS(have)
	case want == "cifs", want == "smb3":
		return have == "cifs" || have == "smb3"
	}
	return have == want || isNetwork(want) && have == "fuse."+want
}

// isFrom: the monitors of a Ceph cluster are listed by address, and may be others.
func isFrom(have string, req Request) bool {
	want := req.Source
	if req.FSType == "ceph" {
		have, want = have[strings.LastIndex(have, ":")+1:], want[strings.LastIndex(want, ":")+1:]
	}
	if isNetwork(req.FSType) {
		have, want = strings.TrimRight(have, "/"), strings.TrimRight(want, "/")
	}
	return have == want
}

func isNetwork(fsType string) bool {
	_, is := networkTypes[fsType]
	return is
}

// helperOptions are what a program is told: flags that it may know, so that even
// what it mounts in the dark is safe, and the options for the file system.
func helperOptions(o Options) []string {
	var options []string
	for _, n := range flagNames {
		if o.Set&n.flag&(ReadOnly|NoSUID|NoDev|NoExec) != 0 {
			options = append(options, n.name)
		}
	}
	return append(options, o.Data...)
}

// handOver returns an option that names a file, and what is in it, for secrets
// that a program must not have in its arguments. What it cannot read from a file
// is refused.
func handOver(fsType string, secrets []Secret) (option, content string, err error) {
	var b strings.Builder
	for i, secret := range secrets {
		key, value, _ := strings.Cut(secret.Reveal(), "=")
		name, known := secretFiles[fsType].keys[key]
		if !known || fsType == "ceph" && i > 0 {
			return "", "", inputError(fmt.Sprintf("Secrets[%d]", i), redacted,
				"mount."+quote(fsType)+" takes it in its arguments only, which everybody sees")
		}
		b.WriteString(name + value)
		if name != "" {
			b.WriteByte('\n')
		}
	}
	return secretFiles[fsType].option, b.String(), nil
}

// secretFiles has, for each type, the option for a file of secrets, and how each
// stands in there.
var secretFiles = map[string]struct {
	option string
	keys   map[string]string
}{
	"cifs": {"credentials=", cifsCredentials},
	"smb3": {"credentials=", cifsCredentials},
	"ceph": {"secretfile=", map[string]string{"secret": ""}},
}

var cifsCredentials = map[string]string{
	"username": "username=",
	"password": "password=", "pass": "password=",
	"domain": "domain=", "dom": "domain=", "workgroup": "domain=",
}

// printable makes one line of a program's output, of a length for an error.
func printable(text string) string {
	const limit = 2048
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}
