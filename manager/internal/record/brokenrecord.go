package record

import (
	v1 "k8s.io/api/core/v1"
)

// A Broken is an unreadable or invalid record file.
type Broken struct {
	Volume     v1.UniqueVolumeName // volume of the record; empty: not known
	Attachable bool
	Plugin     string // set if the volume may exist as recorded
	Err        error
}

// NewBroken returns the broken record of a file. The volume is known only if the file has the
// name of the volume.
func NewBroken(file string, rec Record, err error) Broken {
	if FileName(rec.Volume) != file {
		return Broken{Err: err}
	}
	return Broken{Volume: rec.Volume, Attachable: rec.Attachable, Err: err}
}
