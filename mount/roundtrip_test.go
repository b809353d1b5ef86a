package mount

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mangle writes a string as the kernel does in mountinfo.
func mangle(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if strings.IndexByte(" \t\n\\#", c) >= 0 {
			fmt.Fprintf(&b, `\%03o`, c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// line writes a line as the kernel does.
func line(i Info) string {
	root := mangle(i.Root)
	if i.Deleted {
		root += "//deleted"
	}
	super := make([]string, len(i.SuperOptions))
	for n, option := range i.SuperOptions {
		super[n] = strings.ReplaceAll(mangle(option), ",", `\054`) // for the list's sake
	}
	fields := []string{
		fmt.Sprintf("%d %d %d:%d", i.ID, i.Parent, i.Major, i.Minor),
		root, mangle(i.Mountpoint), strings.Join(i.Options, ","),
	}
	fields = append(fields, i.Tags...)
	fields = append(fields, "-", mangle(i.FSType), mangle(i.Source), strings.Join(super, ","))
	return strings.Join(fields, " ") + "\n"
}

// FuzzMountinfoRoundTrip: whatever is read can be written and read again.
func FuzzMountinfoRoundTrip(f *testing.F) {
	f.Add([]byte("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue\n"))
	f.Add([]byte("1 1 0:1 / / rw - tmpfs  rw\n2 1 0:1 /a//deleted /a\\040b rw - tmp\\134fs x\\011 rw,a\\012b\n"))
	f.Add([]byte("1 1 0:1 / / rw - t s a\\054b,c\n"))
	f.Add([]byte("1 1 0:1 /\\ /\\777\\04 rw - - - -\n"))
	if own, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		f.Add(own)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		table, err := parseMountinfo(text)
		if err != nil {
			return
		}
		var written strings.Builder
		for _, info := range table {
			written.WriteString(line(info))
		}
		again, err := parseMountinfo([]byte(written.String()))
		require.NoError(t, err)
		require.Equal(t, table, again)
	})
}

// FuzzEscapes: what the kernel escapes is what is read.
func FuzzEscapes(f *testing.F) {
	for _, s := range []string{"", "/a b", `\`, `\040`, "\t\n#", `\\1234`, "/\xff\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		require.Equal(t, s, unescapeOctal(mangle(s)))
		require.NotContains(t, mangle(s), " ")
	})
}

// FuzzOptionsRoundTrip: the flags that options set are options that set them.
func FuzzOptionsRoundTrip(f *testing.F) {
	f.Add("ro,nosuid,size=1m")
	f.Add("rw,relatime,nodiratime,noexec")
	f.Add("strictatime,nosymfollow,,x")
	f.Fuzz(func(t *testing.T, text string) {
		allow := Allow{SUID: true, Dev: true, Context: true}
		o, err := ParseOptions(strings.Split(text, ","), allow)
		if err != nil {
			return
		}
		require.Zero(t, o.Set&o.Clear)
		again, err := ParseOptions(strings.Split(o.Set.String(), ","), allow)
		require.NoError(t, err)
		require.Equal(t, o.Set, again.Set)
		data, err := ParseOptions(o.Data, allow)
		require.NoError(t, err)
		require.Equal(t, o.Data, data.Data)
		require.Zero(t, data.Set|data.Clear)
		require.Equal(t, o.Set, tableFlags(strings.Split(o.Set.String(), ","))&^StrictAtime|o.Set&StrictAtime)
	})
}
