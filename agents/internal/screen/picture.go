package screen

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A size is a terminal's size, in characters.
type size struct{ width, height int }

var usualSize = size{80, 24}

// A row of the table is a volume of a pod.
type row struct {
	cells  [columns]string
	isFine bool
}

const (
	columns = 4
	plugin  = 2 // dropped first
	last    = columns - 1
	gap     = "  "
)

var heading = row{cells: [columns]string{"POD", "VOLUME", "PLUGIN", "STATE"}}

// A picture is the text of a terminal.
type picture struct {
	head   []string // the last one above all
	rows   []row
	recent []string // the last one above all
}

// lines returns the lines that fit, with the number of rows left out; rows without news are
// left out first.
func (p picture) lines(s size) []string {
	const scarce = 8 // lines
	head, reserved := p.head, withGap(tail(p.recent, 3))
	if s.height < scarce {
		reserved = 0
	}
	if len(head)+len(p.rows)+1+reserved > s.height {
		head = tail(head, 1)
	}
	all := append(slices.Clone(head), fit(p.rows, s.width-1, max(1, s.height-len(head)-reserved))...)
	if recent := tail(p.recent, s.height-len(all)-1); len(recent) > 0 {
		all = append(append(all, ""), recent...)
	}
	for i, line := range all {
		all[i] = cut(line, s.width-1) // a terminal may begin another line after the last character
	}
	return all[:min(len(all), max(1, s.height))]
}

func withGap(lines []string) int {
	if len(lines) == 0 {
		return 0
	}
	return 1 + len(lines)
}

func tail(lines []string, most int) []string {
	return lines[max(0, len(lines)-max(0, most)):]
}

// fit returns the table, in at most n lines.
func fit(rows []row, width, height int) []string {
	more := ""
	if missing := len(rows) - (height - 1); missing > 0 {
		shown := max(0, height-2)
		more = fmt.Sprintf("... and %d more", len(rows)-shown)
		rows = slices.Clone(rows)
		slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(rank(a), rank(b)) })
		rows = rows[:shown]
	}
	lines := align(append([]row{heading}, rows...), width)
	if more != "" {
		lines = append(lines, more)
	}
	return lines[max(0, len(lines)-height):]
}

func rank(r row) int {
	if r.isFine {
		return 1
	}
	return 0
}

// align returns the rows as lines. It cuts rows that are too wide, the last column first as
// long as enough of it is left.
func align(rows []row, width int) []string {
	var lines []string
	widths := widthsFor(rows, width)
	for _, r := range rows {
		var line strings.Builder
		for i, w := range widths {
			if w == 0 {
				continue
			}
			text := cut(r.cells[i], w)
			line.WriteString(text + strings.Repeat(" ", w-wide(text)) + gap)
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// widthsFor returns the columns' widths; 0: it is left out.
func widthsFor(rows []row, width int) (widths [columns]int) {
	const enough, least = 16, 4
	sum := -len(gap)
	for i := range widths {
		for _, r := range rows {
			widths[i] = max(widths[i], wide(r.cells[i]))
		}
		sum += widths[i] + len(gap)
	}
	cutTo := func(i, least int) {
		by := max(0, min(sum-width, widths[i]-least))
		widths[i], sum = widths[i]-by, sum-by
	}
	cutTo(last, enough)
	if sum > width {
		sum -= widths[plugin] + len(gap)
		widths[plugin] = 0
	}
	for _, least := range []int{2 * least, least} {
		cutTo(1, least)
		cutTo(0, least)
		cutTo(last, least)
	}
	return widths
}

// cut shortens a text to a width, and marks that.
func cut(text string, width int) string {
	const dots = ".."
	if wide(text) <= width {
		return text
	}
	if width <= len(dots) {
		return strings.Repeat(".", max(0, width))
	}
	for wide(text) > width-len(dots) {
		_, n := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-n]
	}
	return text + dots
}

// wide returns the maximum width of a text: characters from firstWide on may take two
// columns.
func wide(text string) (n int) {
	const firstWide = 0x1100
	for _, r := range text {
		n++
		if r >= firstWide {
			n++
		}
	}
	return n
}
