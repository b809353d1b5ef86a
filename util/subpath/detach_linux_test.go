package subpath

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

// TestCleanupOfRemoved: a bind mount in use is detached if its directory has been removed
// from the volume. It stays if the directory exists, or if its file system is on a disk.
func TestCleanupOfRemoved(t *testing.T) {
	onEachTier(t, func(s *site) {
		for _, removed := range []bool{false, true} {
			target := s.bind(request(s.dir, "a"))
			user, err := os.Open(target)
			require.NoError(s, err)
			if removed {
				require.NoError(s, os.Remove(s.dir+"/vol/a"))
				s.cleanup()
				require.NoError(s, user.Close())
				continue
			}
			require.ErrorIs(s, Cleanup(s.Context(), s.m, s.dir+"/pod", "vol"), mount.ErrBusy)
			require.Len(s, s.mounts(), 1)
			require.NoError(s, user.Close())
			s.cleanup()
		}
	})
}

// TestDetach: a bind mount in use is detached with its pod, except one of a disk without
// DetachOptions.Disks.
func TestDetach(t *testing.T) {
	onEachTier(t, func(s *site) {
		for _, test := range []struct {
			fsType   string // in the mount table
			removed  bool
			clean    detachment
			detached bool
		}{
			{"tmpfs", false, detachment{}, false},
			{"tmpfs", true, detachment{}, true},
			{"tmpfs", false, detachment{gone: true}, true},
			{"nfs4", false, detachment{gone: true}, true},
			{"ext4", true, detachment{}, false},
			{"ext4", true, detachment{gone: true}, false},
			{"btrfs", false, detachment{gone: true}, false},
			{"ext4", false, detachment{DetachOptions{Disks: true}, true}, true},
			{"ext4", false, detachment{DetachOptions{Disks: true}, false}, false},
		} {
			target := s.bind(request(s.dir, "a"))
			user, err := os.Open(target)
			require.NoError(s, err)
			if test.removed {
				require.NoError(s, os.Remove(s.dir+"/vol/a"))
			}
			err = cleanUp(s.Context(), looksLike{s.m, test.fsType}, s.dir+"/pod", "vol", test.clean)
			if test.detached {
				require.NoError(s, err, "%v", test)
				require.Empty(s, s.mounts())
				require.NoDirExists(s, s.dir+"/pod/"+directoryName)
			} else {
				require.ErrorIs(s, err, mount.ErrBusy, "%v", test)
				require.Len(s, s.mounts(), 1)
			}
			require.NoError(s, user.Close())
			s.cleanup()
		}
	})
}

// TestDetachOfGonePod tests the same by the exported function.
func TestDetachOfGonePod(t *testing.T) {
	onEachTier(t, func(s *site) {
		target := s.bind(request(s.dir, "a"))
		user, err := os.Create(target + "/file")
		require.NoError(s, err)
		defer func() { require.NoError(s, user.Close()) }()
		require.ErrorIs(s, Cleanup(s.Context(), s.m, s.dir+"/pod", "vol"), mount.ErrBusy)
		require.NoError(s, Detach(s.Context(), s.m, s.dir+"/pod", "vol", DetachOptions{}))
		require.Empty(s, s.mounts())
		require.NoDirExists(s, target)
		_, err = user.WriteString("still open")
		require.NoError(s, err)
		require.FileExists(s, s.dir+"/vol/a/file")
	})
}

// A looksLike mounter reports one file system type for all mounts.
type looksLike struct {
	mount.Interface
	fsType string
}

func (m looksLike) List(ctx context.Context) ([]mount.Info, error) {
	list, err := m.Interface.List(ctx)
	for i := range list {
		list[i].FSType = m.fsType
	}
	return list, err
}
