package main

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDuration(t *testing.T) {
	for us, want := range map[float64]string{
		0: "–", 0.314: "0.31 µs", 9.99: "9.99 µs", 12.34: "12.3 µs", 99.96: "100 µs", 999.4: "999 µs",
		999.6: "1.00 ms", 12_345: "12.3 ms", 2_400_000: "2.40 s", 180e6: "180 s",
	} {
		assert.Equal(t, want, duration(us), "%v", us)
	}
}

func TestFactor(t *testing.T) {
	for f, want := range map[float64]string{0: "", 0.0921: "0.09×", 0.994: "0.99×", 0.996: "1.0×", 9.94: "9.9×", 9.96: "10×", 1716: "1,716×"} {
		assert.Equal(t, want, factor(f), "%v", f)
	}
	assert.Equal(t, "2.0× (1.0 to 4.0)", span{2, 1, 4}.String())
	assert.Equal(t, "2.0×", span{2, 2.01, 2}.String())
	assert.Empty(t, span{}.String())
}

func TestCount(t *testing.T) {
	for n, want := range map[float64]string{0: "–", 4: "4", 5.06: "5.1", 24.6: "25", 100_638: "100,638"} {
		assert.Equal(t, want, count(n), "%v", n)
	}
}

// someLines returns lines of two subjects.
func someLines() []line {
	refused := measured("deep", "a tree of N levels", 5, 1, 1)
	refused.Size, refused.Peer = 16000, &Figures{Refused: "file name too long"}
	busy := measured("bind", "bind", 20, 200, 18)
	busy.Busy = true
	cpu := Row{Subject: "event", Work: "a foreign mount", Ours: Figures{CPU: 14_000}}
	return summarize([]Row{
		measured("event", "latency", 9, 0, 1),
		measured("bind", "bind", 20, 2000, 5), measured("bind", "bind <again>", 16, 2000, 5),
		measured("bind", "bind <read-only>", 15, 1200, 5), busy, refused, cpu,
	})
}

func TestPrintAll(t *testing.T) {
	var out strings.Builder
	require.NoError(t, printAll(&out, someLines()))
	require.Contains(t, out.String(), "| deep | a tree of 16,000 levels (peer: file name too long) | 5.00 µs; –; 1.00 µs |")
	require.Contains(t, out.String(), "| bind | bind, busy |")
	requireTable(t, out.String(), 2+7)
}

// TestPrintShort: the README shows the worst lines of each subject, with the busy ratios beside
// the idle ones, and the lines without a peer below.
func TestPrintShort(t *testing.T) {
	var out strings.Builder
	require.NoError(t, printShort(&out, someLines()))
	table, alone, _ := strings.Cut(out.String(), "\n\n")
	requireTable(t, table, 2+3)
	require.Contains(t, out.String(), "| bind | 20.0 µs | 2.00 ms | 5.00 µs | 100× | 100× | 4.0× | 4.0× | 10× | 1.1× | –; –; – |", "the farthest from the floor")
	require.Contains(t, out.String(), "| bind <read-only> |", "the smallest lead")
	require.NotContains(t, out.String(), "again")
	require.True(t, strings.HasPrefix(alone, "Without a peer, so these compare with nothing:\n\n- "), alone)
	require.Contains(t, alone, "\n- a foreign mount: 14.0 ms of CPU\n")
	require.Contains(t, alone, "\n- latency: 9.00 µs (floor: 1.00 µs)\n")
}

func requireTable(t *testing.T, text string, rows int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	require.Len(t, lines, rows, text)
	for _, line := range lines {
		require.Equal(t, strings.Count(lines[0], "|"), strings.Count(line, "|"), line)
	}
}

func TestDraw(t *testing.T) {
	var out strings.Builder
	require.NoError(t, draw(&out, someLines()))
	picture := out.String()
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	require.Equal(t, 4+1, strings.Count(picture, `class="ours"`), "one a line, and the legend")
	require.Equal(t, 2+1, strings.Count(picture, `class="peer"`))
	require.Equal(t, 4+1, strings.Count(picture, `class="floor"`))
	require.Contains(t, picture, "prefers-color-scheme:dark")
	require.Contains(t, picture, ">10 ms<", "the axis")
	require.NotContains(t, picture, "NaN")
	require.NoError(t, draw(io.Discard, nil))
}

// TestTextsDoNotOverlap: no text of the picture covers another one, with 0.55 em for a character,
// whichever power of ten the axis ends with.
func TestTextsDoNotOverlap(t *testing.T) {
	for end := 1.0; end < 1e9; end *= 10 {
		var out strings.Builder
		require.NoError(t, draw(&out, summarize([]Row{measured("bind", "bind", end/5, end/2, end/50)})))
		var picture struct {
			Texts []struct {
				X       float64 `xml:"x,attr"`
				Y       float64 `xml:"y,attr"`
				Class   string  `xml:"class,attr"`
				Anchor  string  `xml:"text-anchor,attr"`
				Content string  `xml:",chardata"`
			} `xml:"text"`
		}
		require.NoError(t, xml.Unmarshal([]byte(out.String()), &picture))
		require.Greater(t, len(picture.Texts), 8)
		const height = 12
		left := make([]float64, len(picture.Texts))
		right := make([]float64, len(picture.Texts))
		for i, text := range picture.Texts {
			width := 0.55 * height * float64(len([]rune(text.Content)))
			left[i] = text.X
			switch {
			case strings.Contains(text.Class, "end"):
				left[i] -= width
			case text.Anchor == "middle":
				left[i] -= width / 2
			}
			right[i] = left[i] + width
			for j, other := range picture.Texts[:i] {
				apart := math.Abs(text.Y-other.Y) >= height || right[i] <= left[j] || right[j] <= left[i]
				require.True(t, apart, "%q covers %q", text.Content, other.Content)
			}
		}
	}
}

// TestAxisIsLogarithmic: each power of ten has the same width, and all times are on the axis.
func TestAxisIsLogarithmic(t *testing.T) {
	p := picture{lines: summarize([]Row{measured("s", "w", 20, 30_000, 0.4)})}
	p.scale()
	require.Equal(t, -1, p.least)
	require.Equal(t, 5, p.most)
	require.InDelta(t, p.x(10)-p.x(1), p.x(1000)-p.x(100), 1e-9)
	require.InDelta(t, labels, p.x(math.Pow10(p.least)), 1e-9)
	require.InDelta(t, labels+axis, p.x(math.Pow10(p.most)), 1e-9)
}
