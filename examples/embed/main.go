// Embed is the smallest program that uses the library: it mounts one volume by hand
// (node/volume.go), and then has the manager keep the volumes of a pod (node/manager.go).
// Both mount for real, in a mount namespace of the program's own; no root is needed.
//
//	go run ./examples/embed
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/examples/embed/node"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/namespace"
	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() { os.Exit(cli.Start(run)) }

const program namespace.Program = "embed"

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("embed", flag.ContinueOnError)
	err := cli.Parse(flags, args, stdout, "embed mounts one volume by hand, and then keeps those of a pod.")
	switch {
	case err != nil:
		return cli.UsageStatus("embed", err, stderr)
	case !program.IsInside():
		return program.Rerun(ctx, args, stdout, stderr)
	}
	if err = program.Enter(); err == nil {
		out := bufio.NewWriter(stdout)
		err = errors.Join(runInTempDir(ctx, out, mount.New(mount.Config{})), out.Flush())
	}
	return cli.ExitStatus("embed", err, stderr)
}

// runInTempDir runs both halves in a temporary directory, which it removes.
func runInTempDir(ctx context.Context, out io.Writer, mounter mount.Interface) error {
	dir, err := temporary()
	if err != nil {
		return err
	}
	config := node.Config{Mounter: mounter, Root: filepath.Join(dir, "root"), Disks: filepath.Join(dir, "disks"), Out: out}
	ssd := filepath.Join(config.Disks, "ssd1")
	err = errors.Join(os.Mkdir(config.Root, 0o755), os.MkdirAll(ssd, 0o755))
	if err == nil {
		err = node.MountVolume(ctx, config, disk(ssd), web())
	}
	if err == nil {
		err = node.KeepVolumes(ctx, config, web())
	}
	return errors.Join(err, os.RemoveAll(dir))
}

// temporary returns a new directory by a path without symbolic links.
func temporary() (string, error) {
	dir, err := os.MkdirTemp("", "volumekit")
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

func disk(path string) *v1.PersistentVolume {
	return &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
		},
	}
}

func web() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "8d3c"},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "web", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}}},
			Volumes: []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{
				EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}},
		},
	}
}
