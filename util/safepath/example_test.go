package safepath_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/util/safepath"
)

func ExampleMkdirAll() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	root, _ := filepath.EvalSymlinks(dir) // the only trusted path

	target := filepath.Join(root, "pods", "uid", "volume")
	made, err := safepath.MkdirAll(ctx, root, target, 0o750)
	first, _ := filepath.Rel(root, made)
	fmt.Println("made from", first, "on:", err)

	// A pod swaps a directory for a link that leads elsewhere.
	_ = os.RemoveAll(filepath.Join(root, "pods", "uid"))
	_ = os.Symlink("/etc", filepath.Join(root, "pods", "uid"))
	_, err = safepath.MkdirAll(ctx, root, target, 0o750)
	_, elsewhere := os.Lstat("/etc/volume")
	fmt.Println("refused:", err != nil, "nothing made elsewhere:", errors.Is(elsewhere, os.ErrNotExist))
	// Output:
	// made from pods on: <nil>
	// refused: true nothing made elsewhere: true
}

func ExampleRemoveMade() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	root, _ := filepath.EvalSymlinks(dir)
	_ = os.Mkdir(filepath.Join(root, "pods"), 0o750)

	target := filepath.Join(root, "pods", "uid", "volume")
	made, err := safepath.MkdirAll(ctx, root, target, 0o750)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("taken back:", safepath.RemoveMade(ctx, made, target))
	left, _ := os.ReadDir(filepath.Join(root, "pods"))
	fmt.Println("left in pods:", len(left))
	// Output:
	// taken back: <nil>
	// left in pods: 0
}

func ExampleCreateFile() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	root, _ := filepath.EvalSymlinks(dir)

	target := filepath.Join(root, "target")
	for range 2 {
		fmt.Println(safepath.CreateFile(ctx, root, target, 0o640))
	}
	_ = os.WriteFile(target, []byte("data"), 0o640)
	err := safepath.RemoveEmptyFile(ctx, target)
	fmt.Println("with data it stays:", errors.Is(err, safepath.ErrNotEmpty))
	// Output:
	// true <nil>
	// false <nil>
	// with data it stays: true
}

func ExampleRmdir() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	root, _ := filepath.EvalSymlinks(dir)

	target := filepath.Join(root, "target")
	_ = os.Mkdir(target, 0o750)
	_ = os.WriteFile(filepath.Join(target, "data"), nil, 0o640)
	fmt.Println("a full directory stays:", safepath.Rmdir(ctx, target) != nil)
	_ = os.Remove(filepath.Join(target, "data"))
	fmt.Println(safepath.Rmdir(ctx, target))
	// Output:
	// a full directory stays: true
	// <nil>
}
