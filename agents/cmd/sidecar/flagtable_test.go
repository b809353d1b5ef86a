package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// programLetters are the programs in the order of the table, with their letters.
var programLetters = []struct{ program, letter string }{
	{"external-provisioner v6.4.0", "p"}, {"external-attacher v4.13.0", "a"}, {"external-resizer v2.3.0", "r"},
	{"node-driver-registrar v2", "n"}, {"livenessprobe v2", "l"},
}

// TestFlagTable: the documentation has a table of all flags, with the programs that have them and with their help.
func TestFlagTable(t *testing.T) {
	require.Len(t, programLetters, len(theirFlags))
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	want := strings.Join(flagTable(), "\n")
	require.True(t, strings.Contains(string(doc), "//\n"+want+"\n//\n"), "doc.go must have this table:\n%s", want)
}

// flagTable returns the lines of the table.
func flagTable() (lines []string) {
	new(options).newFlagSet().VisitAll(func(f *flag.Flag) {
		var programs string
		for _, p := range programLetters {
			if slices.Contains(strings.Fields(theirFlags[p.program]), f.Name) {
				programs += p.letter
			}
		}
		if programs == "" {
			programs = "own"
		}
		name := "--" + f.Name
		_, usage := flag.UnquoteUsage(f)
		for _, part := range wrap(usage, 74) {
			lines = append(lines, strings.TrimRight(fmt.Sprintf("//\t%-35s %-5s  %s", name, programs, part), " "))
			name, programs = "", ""
		}
	})
	return lines
}

// wrap returns a text in lines of a width, which are broken at spaces.
func wrap(text string, width int) (lines []string) {
	var line string
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}
