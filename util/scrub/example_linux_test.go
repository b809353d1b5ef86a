package scrub_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/util/scrub"
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
	for _, name := range []string{"a", "b", "kept"} {
		if err := os.WriteFile(filepath.Join(volume, name), []byte("data"), 0o600); err != nil {
			log.Fatal(err)
		}
	}

	root, err := scrub.Open(context.Background(), volume)
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = root.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	counts, err := root.Empty(ctx, scrub.Options{Keep: []string{"kept"}})
	fmt.Println(counts.Files, "files removed, error:", err)

	err = root.Check(ctx, scrub.Options{})
	if left := (*scrub.NotEmptyError)(nil); errors.As(err, &left) {
		fmt.Printf("left: %q\n", left.Names)
	}
	// Output:
	// 2 files removed, error: <nil>
	// left: ["kept"]
}
