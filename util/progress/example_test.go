package progress_test

import (
	"context"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/util/progress"
)

// A caller receives the reports of the steps below its context; the author of a slow step begins and ends
// it.
func Example() {
	first := make(chan progress.Report, 1)
	ctx := progress.With(context.Background(), func(r progress.Report) {
		select {
		case first <- r:
		default:
		}
	})
	copyVolume := func(ctx context.Context) {
		defer progress.Begin(ctx, progress.Step{
			Name: "copy", Object: "/srv/data", Unit: progress.Entries,
			Count: func() (done, total int64) { return 20, 100 },
		})()
		time.Sleep(1500 * time.Millisecond)
	}
	copyVolume(ctx)
	r := <-first
	fmt.Println(r.Step, r.Object, r.Done, "of", r.Total, r.Unit)
	// Output: copy /srv/data 20 of 100 entries
}
