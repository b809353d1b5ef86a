// Package projectquota limits the size of a directory by a project quota of its file system: ext4 with
// the feature project, or xfs, mounted with the option prjquota. [Check] queries the kernel whether the
// limits are enforced.
//
// A project is a number of a file system. Each file belongs to one project, and a directory that
// [Assign] has assigned passes its project to new files in it.
package projectquota

import (
	"errors"
	"hash/fnv"
)

// ErrOff is wrapped by errors about a file system that enforces no project quotas.
var ErrOff = errors.New("no project quota is enforced")

// A Use is the use of a project, and its limit.
type Use struct {
	Bytes, Files int64
	Limit        int64 // in bytes; 0: none
}

// IsZero reports whether no file belongs to the project and it has no limit.
func (u Use) IsZero() bool { return u == Use{} }

// The projects that Choose returns. Other programs number theirs from 1, or from 1<<20.
const (
	firstProject = 1 << 30
	projects     = 1 << 30
	mostProbes   = 64
)

// Choose returns a project of the file system at dir that has neither files nor a limit. For one name
// the first candidate is always the same.
func Choose(dir, name string) (uint32, error) {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	for i := range uint32(mostProbes) {
		project := firstProject + (hash.Sum32()+i)%projects
		use, err := Query(dir, project)
		if err != nil {
			return 0, err
		}
		if use.IsZero() {
			return project, nil
		}
	}
	return 0, errors.New("no free project is found")
}
