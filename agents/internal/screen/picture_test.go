package screen

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func pictureOf(rows, recent int) picture {
	p := picture{head: []string{"Keeping the volumes of the pods in /somewhere/or/other.", "Not all is as desired yet."}}
	for i := range rows {
		p.rows = append(p.rows, row{[columns]string{"default/pod", fmt.Sprint("volume-", i), "kubernetes.io/empty-dir", mounted}, true})
	}
	for i := range recent {
		p.recent = append(p.recent, fmt.Sprintf("12:00:%02d SuccessfulMountVolume default/pod: and so on, and so forth, without an end", i))
	}
	return p
}

// TestPictureFits checks for every size that no line is too long, that there are not too
// many lines, and that the picture counts the rows that it omits.
func TestPictureFits(t *testing.T) {
	for _, rows := range []int{0, 1, 5, 30} {
		for _, recent := range []int{0, 8} {
			p := pictureOf(rows, recent)
			for width := 0; width < 100; width += 3 {
				for height := 1; height < 50; height++ {
					lines := p.lines(size{width, height})
					require.LessOrEqual(t, len(lines), height)
					shown, missing := 0, 0
					for _, line := range lines {
						require.LessOrEqual(t, wide(line), max(0, width-1))
						if strings.HasPrefix(line, "default/") {
							shown++
						}
						_, _ = fmt.Sscanf(line, "... and %d more", &missing)
					}
					if width > 60 && height > 1 {
						require.Equal(t, rows, shown+missing, "%d x %d:\n%s", width, height, strings.Join(lines, "\n"))
					}
				}
			}
		}
	}
}

func TestPicture(t *testing.T) {
	p := pictureOf(20, 8)
	p.rows[17] = row{cells: [columns]string{"default/other-pod-with-a-long-name", "disk", "kubernetes.io/local-volume", "failed: the disk \u4e16\u754c is not there, and nobody knows why"}}
	require.Equal(t, `Not all is as desired yet.
POD            VOLUME    STATE
default/oth..  disk      failed: the di..
default/pod    volume-0  mounted
default/pod    volume-1  mounted
... and 17 more

12:00:05 SuccessfulMountVolume default/..
12:00:06 SuccessfulMountVolume default/..
12:00:07 SuccessfulMountVolume default/..`, strings.Join(p.lines(size{42, 10}), "\n"))
	require.Equal(t, `Not all is as des..
POD   VO..  STATE
de..  disk  faile..
... and 19 more`, strings.Join(p.lines(size{20, 4}), "\n"))
	p.rows = p.rows[16:18]
	require.Equal(t, `Keeping the volumes of the pods in /somewhere/or/other.
Not all is as desired yet.
POD                                 VOLUME     PLUGIN                      STATE
default/pod                         volume-16  kubernetes.io/empty-dir     mounted
default/other-pod-with-a-long-name  disk       kubernetes.io/local-volume  failed: the disk ..`, strings.Join(p.lines(size{96, 5}), "\n"))
}
