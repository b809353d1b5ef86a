package mountinfo

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/volumekit/volumekit/internal/optionlist"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/mount/internal/text"
)

// parseTable parses the text of a mount table and returns the entries as convert returns them.
// Each text of the kernel is valid. The strings share the memory of the text; entries with
// equal options share one list.
func parseTable[T any](text []byte, convert func(Entry) T) ([]T, error) {
	rest := string(text)
	table := make([]T, 0, strings.Count(rest, "\n")+1)
	p := lineParser{options: map[string]mountOptions{}, superOptions: map[string][]string{}}
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		entry, err := p.parseLine(line)
		if err != nil {
			return nil, fmt.Errorf("mountinfo line %d: %w", len(table)+1, err)
		}
		table = append(table, convert(entry))
	}
	return table, nil
}

var errSyntax = errors.New("not a line of mountinfo")

// A lineParser parses lines. It keeps the lists of options: a table has few different ones.
type lineParser struct {
	options      map[string]mountOptions
	superOptions map[string][]string
}

type mountOptions struct {
	list  []string
	flags options.Flags
}

// parseLine parses a line such as
//
//	36 35 98:0 /root /mount/point rw,noatime master:1 - ext4 /dev/sda1 rw,errors=continue
//
// The kernel writes exactly one blank between fields and escapes the blanks inside them, so
// an empty field (a source) is valid.
func (p *lineParser) parseLine(line string) (Entry, error) {
	var fixed [6]string
	rest, ok := cutFields(fixed[:], line)
	tags, rest, found := cutTags(rest)
	var last [3]string
	_, complete := cutFields(last[:], rest)
	if !ok || !found || !complete {
		return Entry{}, fmt.Errorf("%w: %q", errSyntax, text.Shorten(line))
	}
	parsed := p.parseOptions(fixed[5])
	entry := Entry{
		Root:         unescapeOctal(fixed[3]),
		Mountpoint:   unescapeOctal(fixed[4]),
		Options:      parsed.list,
		Flags:        parsed.flags,
		Tags:         tags,
		FSType:       unescapeOctal(last[0]),
		Source:       unescapeOctal(last[1]),
		SuperOptions: p.parseSuperOptions(last[2]),
	}
	entry.Root, entry.Deleted = strings.CutSuffix(entry.Root, record.DeletedMark)
	return entry, entry.parseNumbers(fixed[0], fixed[1], fixed[2])
}

// cutFields cuts fields from the beginning of a line, and reports whether the line has
// enough of them.
func cutFields(fields []string, line string) (rest string, ok bool) {
	more := true
	for i := range fields {
		if !more {
			return "", false
		}
		fields[i], line, more = strings.Cut(line, " ")
	}
	return line, true
}

// cutTags cuts the optional fields, up to the first "-".
func cutTags(line string) (tags []string, rest string, found bool) {
	tags = []string{}
	for found = true; found; {
		var field string
		if field, line, found = strings.Cut(line, " "); found && field == "-" {
			return tags, line, true
		}
		tags = append(tags, field)
	}
	return nil, "", false
}

func (p *lineParser) parseOptions(text string) mountOptions {
	parsed, known := p.options[text]
	if !known {
		parsed.list = strings.Split(text, ",")
		parsed.flags = options.ReadTableFlags(parsed.list)
		p.options[text] = parsed
	}
	return parsed
}

func (p *lineParser) parseSuperOptions(text string) []string {
	list, known := p.superOptions[text]
	if !known {
		list = optionlist.JoinLabels(strings.Split(text, ","))
		for i, option := range list {
			list[i] = unescapeOctal(option)
		}
		p.superOptions[text] = list
	}
	return list
}

func (e *Entry) parseNumbers(idText, parentText, deviceText string) error {
	id, err1 := strconv.Atoi(idText)
	parent, err2 := strconv.Atoi(parentText)
	majorText, minorText, _ := strings.Cut(deviceText, ":")
	major, err3 := strconv.ParseUint(majorText, 10, 32)
	minor, err4 := strconv.ParseUint(minorText, 10, 32)
	if err1 != nil || err2 != nil || err3 != nil || err4 != nil {
		return fmt.Errorf("%w: %w", errSyntax, errors.Join(err1, err2, err3, err4))
	}
	e.ID, e.Parent, e.Major, e.Minor = id, parent, uint32(major), uint32(minor)
	return nil
}

// unescapeOctal replaces the kernel's escapes of blank, tab, newline, backslash and "#": a
// backslash and three octal digits.
func unescapeOctal(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if n, ok := parseOctal(s[i:]); ok {
			b.WriteByte(n)
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// parseOctal parses an escape at the beginning of s.
func parseOctal(s string) (byte, bool) {
	if len(s) < 4 || s[0] != '\\' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[1:4], 8, 8)
	return byte(n), err == nil
}
