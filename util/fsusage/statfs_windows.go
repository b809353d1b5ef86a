package fsusage

import (
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// statfs asks for the directory of a file: GetDiskFreeSpaceEx accepts directories alone.
var statfs = func(path string) (Usage, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return Usage{}, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return Usage{}, err
	}
	if !info.IsDir() {
		path = filepath.Dir(path)
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return Usage{}, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: path, Err: err}
	}
	var available, capacity, free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &available, &capacity, &free); err != nil {
		return Usage{}, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: path, Err: err}
	}
	return Usage{Capacity: clamp(capacity), Used: clamp(capacity - min(free, capacity)), Available: clamp(available)}, nil
}

func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }
