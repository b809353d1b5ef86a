package cli

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/util/progress"
)

func TestPrintSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stderr testbed.Buffer
		run := PrintSteps("program", func(ctx context.Context, args []string, _, _ io.Writer) int {
			for _, seconds := range []time.Duration{0, 15} {
				end := progress.Begin(ctx, progress.Step{Name: progress.Format, Object: args[0]})
				time.Sleep(seconds*time.Second + 1)
				end()
			}
			return 7
		})
		require.Equal(t, 7, run(t.Context(), []string{"/dev/\x1b[Hvdb"}, io.Discard, &stderr))
		synctest.Wait()
		require.Equal(t, "program: format /dev/ [Hvdb: 1s\nprogram: format /dev/ [Hvdb: 10s\nprogram: format /dev/ [Hvdb: ended after 15s\n", stderr.String())
	})
}
