package podvolume

import (
	"context"

	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Keeper measures and takes down the volumes of a plugin at their directories: [Mounts] and [Dirs] do.
type Keeper interface {
	GetMetrics(ctx context.Context, dir string) (*volume.Metrics, error)
	TearDown(ctx context.Context, dir string) error
}

// NewMounter returns the mounter of a volume of a pod at a path, for a plugin whose keeper does the rest. SetUp sets the
// volume up at a directory, by the keeper, and keeps the promises of [volume.Mounter] SetUpAt.
//
//	return podvolume.NewMounter(p.mounts, path, volume.Attributes{ReadOnly: readOnly},
//		func(ctx context.Context, dir string, args volume.MounterArgs) error {
//			return p.mounts.SetUp(ctx, dir, mount.Request{Source: source})
//		})
//
// It executes no system call. A nil keeper or setUp is refused with a [*field.Error] by the methods that need it.
func NewMounter(keeper Keeper, path string, attributes volume.Attributes, setUp func(ctx context.Context, dir string, args volume.MounterArgs) error) volume.Mounter {
	return mounter{frame{keeper, path}, attributes, setUp}
}

// NewUnmounter returns the unmounter of a volume of a pod at a path, which the keeper takes down. It executes no system
// call. A nil keeper is refused as by [NewMounter].
func NewUnmounter(keeper Keeper, path string) volume.Unmounter { return unmounter{frame{keeper, path}} }

var errNoKeeper = field.Required(field.NewPath("keeper"), "a volume is measured and taken down by its keeper")

// A frame is a volume at its path.
type frame struct {
	keeper Keeper
	path   string
}

func (f frame) GetPath() string { return f.path }

func (f frame) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	if f.keeper == nil {
		return nil, errNoKeeper
	}
	return f.keeper.GetMetrics(ctx, f.path)
}

type mounter struct {
	frame
	attributes volume.Attributes
	setUp      func(ctx context.Context, dir string, args volume.MounterArgs) error
}

func (m mounter) GetAttributes() volume.Attributes { return m.attributes }

func (m mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

func (m mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if m.setUp == nil {
		return field.Required(field.NewPath("setUp"), "a mounter sets up its volume")
	}
	return m.setUp(ctx, dir, args)
}

type unmounter struct{ frame }

func (u unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

func (u unmounter) TearDownAt(ctx context.Context, dir string) error {
	if u.keeper == nil {
		return errNoKeeper
	}
	return u.keeper.TearDown(ctx, dir)
}
