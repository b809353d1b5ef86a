package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// measureEmptyDir prints how long it takes to set an emptyDir up and to tear it down
// again, with 100 files that have been written to it meanwhile. On disk most of it is the
// sync of the note that the volume is ready.
func measureEmptyDir(ctx context.Context, dir string) error {
	host, err := volume.NewHost(dir)
	if err != nil {
		return err
	}
	mounter := mount.New(mount.Config{StagingDir: filepath.Join(dir, "staging")})
	plugin := emptydir.New(emptydir.Config{Mounter: mounter})
	if err := plugin.Init(host); err != nil {
		return err
	}
	fmt.Println("| an emptyDir | set up, ms | tear down, ms |")
	fmt.Println("|---|--:|--:|")
	for _, medium := range []v1.StorageMedium{v1.StorageMediumDefault, v1.StorageMediumMemory} {
		const rounds = 50
		var up, down []float64
		for n := range rounds {
			if err := emptyDirOnce(ctx, plugin, medium, n, &up, &down); err != nil {
				return err
			}
		}
		name := map[v1.StorageMedium]string{"": kindOfDisk(dir)}[medium] + string(medium)
		fmt.Printf("| %s | %.2f | %.2f |\n", name, median(up), median(down))
	}
	return mounter.Close()
}

func emptyDirOnce(ctx context.Context, p *emptydir.Plugin, medium v1.StorageMedium, n int, up, down *[]float64) error {
	spec := volume.NewSpecFromVolume(&v1.Volume{
		Name:         "scratch",
		VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: medium}},
	})
	uid := types.UID(fmt.Sprintf("pod-%d", n))
	mounter, err := p.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	if err != nil {
		return err
	}
	unmounter, err := p.NewUnmounter("scratch", uid)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := mounter.SetUp(ctx, volume.MounterArgs{}); err != nil {
		return err
	}
	*up = append(*up, milliseconds(begin))
	for i := range 100 {
		err = errors.Join(err, os.WriteFile(filepath.Join(mounter.GetPath(), fmt.Sprint(i)), []byte("scratch"), 0o600))
	}
	begin = time.Now()
	err = errors.Join(err, unmounter.TearDown(ctx))
	*down = append(*down, milliseconds(begin))
	return err
}

func milliseconds(since time.Time) float64 { return float64(time.Since(since).Microseconds()) / 1000 }
