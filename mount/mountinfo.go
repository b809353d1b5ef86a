package mount

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// parseMountinfo reads the text of /proc/<pid>/mountinfo. Any text is accepted
// or refused with an error; the kernel's is always accepted.
func parseMountinfo(text []byte) (Table, error) {
	var table Table
	for line := range bytes.Lines(text) {
		info, err := parseMountinfoLine(strings.TrimSuffix(string(line), "\n"))
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %d: %w", len(table)+1, err)
		}
		table = append(table, info)
	}
	return table, nil
}

var errMountinfo = errors.New("not a line of mountinfo")

// parseMountinfoLine reads
//
//	36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue
//
// The kernel puts exactly one blank between fields and escapes the blanks inside
// them, so a field that is empty (the source may be) stays one.
func parseMountinfoLine(line string) (Info, error) {
	fields := strings.Split(line, " ")
	if len(fields) < 10 {
		return Info{}, fmt.Errorf("%w: %q", errMountinfo, shorten(line))
	}
	// The first "-" after the six fixed fields ends the optional ones.
	dash := slices.Index(fields[6:], "-") + 6
	if dash < 6 || len(fields) < dash+4 {
		return Info{}, fmt.Errorf("%w: %q", errMountinfo, shorten(line))
	}
	info := Info{
		Root:         unescapeOctal(fields[3]),
		Mountpoint:   unescapeOctal(fields[4]),
		Options:      strings.Split(fields[5], ","),
		Tags:         fields[6:dash:dash],
		FSType:       unescapeOctal(fields[dash+1]),
		Source:       unescapeOctal(fields[dash+2]),
		SuperOptions: strings.Split(fields[dash+3], ","),
	}
	for i, option := range info.SuperOptions {
		info.SuperOptions[i] = unescapeOctal(option)
	}
	// No path has two slashes, so this is the kernel's remark.
	info.Root, info.Deleted = strings.CutSuffix(info.Root, "//deleted")
	info.Flags = tableFlags(info.Options)
	return info, info.setNumbers(fields)
}

func (i *Info) setNumbers(fields []string) error {
	id, err1 := strconv.Atoi(fields[0])
	parent, err2 := strconv.Atoi(fields[1])
	majorText, minorText, _ := strings.Cut(fields[2], ":")
	major, err3 := strconv.ParseUint(majorText, 10, 32)
	minor, err4 := strconv.ParseUint(minorText, 10, 32)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return fmt.Errorf("%w: %w", errMountinfo, err)
	}
	i.ID, i.Parent, i.Major, i.Minor = id, parent, uint32(major), uint32(minor)
	return nil
}

// tableFlags reads the flags off a table's options. The kernel prints
// "relatime" and prints nothing at all for strictatime.
func tableFlags(options []string) Flags {
	flags := StrictAtime
	for _, option := range options {
		switch option {
		case "relatime", "noatime":
			flags &^= StrictAtime
		}
		flags |= flagOptions[option].set
	}
	return flags
}

// unescapeOctal undoes the kernel's escapes of blank, tab, newline, backslash
// and "#": a backslash and three octal digits.
func unescapeOctal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if n, ok := octal(s[i:]); ok {
			b.WriteByte(n)
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(s string) (byte, bool) {
	if len(s) < 4 || s[0] != '\\' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:4], 8, 8)
	return byte(n), err == nil
}
