package scrub

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/util/internal/beneathtest"
	"golang.org/x/sys/unix"
)

// TestTrash: entries are moved to the trash first, and what is kept stays in place.
func TestTrash(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		o := Options{Trash: ".trash", Keep: []string{"keep"}}
		r := open(t, dir)
		for range 3 {
			testbed.Fill(t, dir, "a/b/c", "d", "keep/x", "lost+found/#1/x", "lost+found/d")
			require.NoError(t, os.Symlink("/", dir+"/link"))
			counts, err := r.Empty(t.Context(), o)
			require.NoError(t, err)
			require.Equal(t, Counts{Files: 3, Directories: 2}, counts, "of what was moved")
			require.NoFileExists(t, dir+"/d")
			require.NoDirExists(t, dir+"/a")
			require.Len(t, must(os.ReadDir(dir))(t), 3)
			require.Empty(t, must(os.ReadDir(dir+"/lost+found"))(t))
		}
		require.FileExists(t, dir+"/.trash/0/a/b/c")
		require.FileExists(t, dir+"/.trash/2/0/#1/x")

		var left *NotEmptyError
		require.ErrorAs(t, r.Check(t.Context(), o), &left)
		require.Equal(t, []string{".trash"}, left.Names)
		require.NoError(t, r.Check(t.Context(), Options{Keep: []string{".trash", "keep"}}))

		testbed.Fill(t, dir, "new")
		counts, err := r.DeleteTrash(t.Context(), o)
		require.NoError(t, err)
		require.Equal(t, Counts{Files: 15, Directories: 16}, counts)
		require.ElementsMatch(t, []string{"keep", "keep/x", "lost+found", "new"}, list(t, dir))
		_, err = r.DeleteTrash(t.Context(), o)
		require.NoError(t, err, "that there is none is no error")

		_, err = r.DeleteTrash(t.Context(), Options{})
		var input *InputError
		require.ErrorAs(t, err, &input)
	})
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// TestTrashIsInTheRoot: nothing is moved through a link or to another file system.
func TestTrashIsInTheRoot(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "root/a", "root/busy/", "outside/canary", "root/mounted/")
		require.NoError(t, os.Symlink("../outside", dir+"/root/link"))
		testbed.Tmpfs(t, dir+"/root/mounted")
		testbed.Tmpfs(t, dir+"/root/busy")
		testbed.Fill(t, dir, "root/mounted/canary", "root/busy/canary")
		r := open(t, dir+"/root")
		for _, name := range []string{"link", "mounted", "a"} {
			_, err := r.Empty(t.Context(), Options{Trash: name})
			require.Error(t, err, name)
			require.FileExists(t, dir+"/root/a", name)
		}
		require.Equal(t, []string{"canary"}, list(t, dir+"/outside"))
		require.Equal(t, []string{"canary"}, list(t, dir+"/root/mounted"))

		_, err := r.Empty(t.Context(), Options{Trash: ".trash"})
		require.ErrorIs(t, err, unix.EBUSY)
		require.ElementsMatch(t, []string{"busy", "mounted"}, paths(t, err))
		require.NoFileExists(t, dir+"/root/a")

		_, err = r.DeleteTrash(t.Context(), Options{Trash: "link"})
		require.NoError(t, err, "it is the link that goes")
		_, err = r.DeleteTrash(t.Context(), Options{Trash: "mounted"})
		require.ErrorIs(t, err, unix.EXDEV)
		require.FileExists(t, dir+"/root/mounted/canary")
		require.FileExists(t, dir+"/root/busy/canary")
		require.FileExists(t, dir+"/outside/canary")
	})
}
