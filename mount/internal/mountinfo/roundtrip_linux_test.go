package mountinfo

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// parseEntries parses the text of a mount table.
func parseEntries(text []byte) ([]Entry, error) {
	return parseTable(text, func(e Entry) Entry { return e })
}

// fuzzTables calls test with mount tables that the parser accepts. The seeds are texts, and the
// mount table of this process.
func fuzzTables(f *testing.F, texts []string, test func(t *testing.T, text []byte, table []Entry)) {
	f.Helper()
	for _, text := range texts {
		f.Add([]byte(text))
	}
	if own, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		f.Add(own)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if table, err := parseEntries(text); err == nil {
			test(t, text, table)
		}
	})
}

// escape returns a string with the kernel's escapes.
func escape(s string) string {
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

// tableLine returns the line of an entry, as the kernel writes it.
func tableLine(i Entry) string {
	root := escape(i.Root)
	if i.Deleted {
		root += "//deleted"
	}
	super := make([]string, len(i.SuperOptions))
	for n, option := range i.SuperOptions {
		super[n] = strings.ReplaceAll(escape(option), ",", `\054`) // or else the list would have two options
	}
	fields := []string{
		fmt.Sprintf("%d %d %d:%d", i.ID, i.Parent, i.Major, i.Minor),
		root, escape(i.Mountpoint), strings.Join(i.Options, ","),
	}
	fields = append(fields, i.Tags...)
	fields = append(fields, "-", escape(i.FSType), escape(i.Source), strings.Join(super, ","))
	return strings.Join(fields, " ") + "\n"
}

// FuzzMountinfoRoundTrip: a parsed table can be written and parsed again.
func FuzzMountinfoRoundTrip(f *testing.F) {
	fuzzTables(f, []string{
		"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue\n",
		"1 1 0:1 / / rw - tmpfs  rw\n2 1 0:1 /a//deleted /a\\040b rw - tmp\\134fs x\\011 rw,a\\012b\n",
		"1 1 0:1 / / rw - t s a\\054b,c\n",
		"1 1 0:1 /\\ /\\777\\04 rw - - - -\n",
	}, func(t *testing.T, _ []byte, table []Entry) {
		var written strings.Builder
		for _, info := range table {
			written.WriteString(tableLine(info))
		}
		again, err := parseEntries([]byte(written.String()))
		require.NoError(t, err)
		require.Equal(t, table, again)
	})
}

// FuzzEscapes: the parser reverts the escapes of the kernel.
func FuzzEscapes(f *testing.F) {
	for _, s := range []string{"", "/a b", `\`, `\040`, "\t\n#", `\\1234`, "/\xff\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		require.Equal(t, s, unescapeOctal(escape(s)))
		require.NotContains(t, escape(s), " ")
	})
}
