package main

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"
)

// Sizes of the picture, in pixels.
const (
	labels  = 450                // width of the names
	axis    = 370                // width of the logarithmic axis
	leadAt  = labels + axis + 84 // right edges of the ratios
	floorAt = leadAt + 84
	width   = floorAt + 4
	head    = 62 // height of the legend, the headings of the ratios, and the axis' labels
	each    = 19 // height of a line
)

// style has colours for light and for dark pages. Shapes also distinguish the sides.
const style = `text{font:12px system-ui,sans-serif;fill:#1f2328}.faint{fill:#59636e}.end{text-anchor:end}` +
	`.grid{stroke:#d1d9e0}.span{stroke:#8c959f}` +
	`.floor{stroke:#59636e;stroke-width:2.5}.ours{fill:#0969da}.peer{fill:none;stroke:#bc4c00;stroke-width:2}` +
	`@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.faint{fill:#9198a1}.grid{stroke:#3d444d}.span{stroke:#656c76}` +
	`.floor{stroke:#9198a1}.ours{fill:#4493f8}.peer{stroke:#f0883e}}`

// draw draws the times of the lines with the worst ratios of each subject, and the ratios.
func draw(w io.Writer, lines []line) error {
	idle, _ := split(lines)
	p := picture{lines: timed(worstOfEach(idle))}
	p.scale()
	p.open()
	p.legend()
	p.grid()
	for i, l := range p.lines {
		p.row(head+each*i+each/2, l)
	}
	p.out.WriteString("</svg>\n")
	_, err := io.WriteString(w, p.out.String())
	return err
}

// timed omits lines that have processor time alone.
func timed(lines []line) (some []line) {
	for _, l := range lines {
		if l.Ours.Time > 0 {
			some = append(some, l)
		}
	}
	return some
}

type picture struct {
	out         strings.Builder
	lines       []line
	least, most int // powers of ten, in microseconds
}

// scale returns the powers of ten around all times.
func (p *picture) scale() {
	low, high := math.Inf(1), math.Inf(-1)
	for _, l := range p.lines {
		for _, f := range []*Figures{&l.Ours, l.Peer, l.Floor} {
			if f != nil && f.Time > 0 {
				low, high = min(low, math.Log10(f.Time)), max(high, math.Log10(f.Time))
			}
		}
	}
	if low > high {
		low, high = 0, 1
	}
	p.least = int(math.Floor(low))
	p.most = max(int(math.Ceil(high)), p.least+1)
}

func (p *picture) x(us float64) float64 {
	return labels + axis*(math.Log10(us)-float64(p.least))/float64(p.most-p.least)
}

func (p *picture) bottom() int { return head + each*len(p.lines) }

func (p *picture) open() {
	fmt.Fprintf(&p.out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">`+"\n", width, p.bottom()+10)
	fmt.Fprintf(&p.out, "<title>Time of one operation: ours, the peer's and the floor's</title>\n<style>%s</style>\n", style)
}

func (p *picture) legend() {
	const y = 14
	p.peerMark(labels+8, y)
	p.text(labels+18, y+4, "", "peer")
	p.oursMark(labels+68, y)
	p.text(labels+78, y+4, "", "volumekit")
	p.floorMark(labels+158, y)
	p.text(labels+168, y+4, "", "floor: system calls alone")
	p.text(labels-8, y+4, "faint end", "time of one operation, the worst first")
	// The axis' last label can reach below the first heading.
	p.text(leadAt, head-28, "faint end", "peer / ours")
	p.text(floorAt, head-28, "faint end", "ours / floor")
}

func (p *picture) grid() {
	for power := p.least; power <= p.most; power++ {
		x := p.x(math.Pow10(power))
		fmt.Fprintf(&p.out, `<path class="grid" d="M%.1f %dV%d"/>`, x, head-4, p.bottom())
		fmt.Fprintf(&p.out, `<text class="faint" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, head-10, powerOfTen(power))
	}
}

// powerOfTen formats a power of ten microseconds.
func powerOfTen(power int) string {
	for _, unit := range []struct {
		power int
		name  string
	}{{6, "s"}, {3, "ms"}, {0, "µs"}} {
		if power >= unit.power {
			return fmt.Sprintf("%.0f %s", math.Pow10(power-unit.power), unit.name)
		}
	}
	return fmt.Sprintf("%g µs", math.Pow10(power))
}

func (p *picture) row(y int, l line) {
	p.text(labels-8, y+4, "end", l.name())
	left, right := p.x(l.Ours.Time), p.x(l.Ours.Time)
	for _, f := range []*Figures{l.Peer, l.Floor} {
		if f != nil && f.Time > 0 {
			left, right = min(left, p.x(f.Time)), max(right, p.x(f.Time))
		}
	}
	fmt.Fprintf(&p.out, `<path class="span" d="M%.1f %dH%.1f"/>`, left, y, right)
	if l.Floor != nil && l.Floor.Time > 0 {
		p.floorMark(p.x(l.Floor.Time), y)
	}
	if l.Peer != nil && l.Peer.Time > 0 {
		p.peerMark(p.x(l.Peer.Time), y)
	}
	p.oursMark(p.x(l.Ours.Time), y)
	p.text(leadAt, y+4, "end", factor(l.peer.time.mid))
	p.text(floorAt, y+4, "end", factor(l.floor.time.mid))
	p.out.WriteByte('\n')
}

func (p *picture) text(x, y int, class, text string) {
	fmt.Fprintf(&p.out, `<text class="%s" x="%d" y="%d">%s</text>`, class, x, y, html.EscapeString(text))
}

func (p *picture) floorMark(x float64, y int) {
	fmt.Fprintf(&p.out, `<path class="floor" d="M%.1f %dv10"/>`, x, y-5)
}

func (p *picture) peerMark(x float64, y int) {
	fmt.Fprintf(&p.out, `<path class="peer" d="M%.1f %dl4 4-4 4-4-4z"/>`, x, y-4)
}

func (p *picture) oursMark(x float64, y int) {
	fmt.Fprintf(&p.out, `<circle class="ours" cx="%.1f" cy="%d" r="4"/>`, x, y)
}
