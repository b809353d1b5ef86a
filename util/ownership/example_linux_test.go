package ownership_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/util/ownership"
)

func Example() {
	temp, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	volume, err := filepath.EvalSymlinks(temp)
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(volume, "file"), nil, 0o600); err != nil {
		log.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fsGroup := int64(os.Getgid()) // a pod's
	options := ownership.Options{Group: &fsGroup, Policy: ownership.OnRootMismatch}
	counts, err := ownership.Apply(ctx, volume, options)
	if unchanged := (*ownership.UnchangedError)(nil); errors.As(err, &unchanged) {
		for _, entry := range unchanged.Entries {
			log.Print(entry.Path, ": ", entry.Err)
		}
	}
	fmt.Printf("%d of %d changed, error: %v\n", counts.Changed, counts.Seen, err)
	info, err := os.Stat(filepath.Join(volume, "file"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(info.Mode())

	counts, err = ownership.Apply(ctx, volume, options)
	fmt.Printf("%d of %d changed, error: %v\n", counts.Changed, counts.Seen, err)
	// Output:
	// 2 of 2 changed, error: <nil>
	// -rw-rw----
	// 0 of 1 changed, error: <nil>
}
