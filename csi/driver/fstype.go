package driver

import (
	"reflect"

	v1 "k8s.io/api/core/v1"
)

// setFSType sets the file system type of a source that has such a field, unless the source names one.
// An empty type changes nothing.
func setFSType(source *v1.PersistentVolumeSource, fsType string) {
	if fsType == "" {
		return
	}
	all := reflect.ValueOf(source).Elem()
	for i := range all.NumField() {
		if all.Field(i).Kind() != reflect.Pointer || all.Field(i).IsNil() {
			continue
		}
		switch f := all.Field(i).Elem().FieldByName("FSType"); {
		case f.Kind() == reflect.String && f.String() == "":
			f.SetString(fsType)
		case f.Kind() == reflect.Pointer && f.IsNil():
			f.Set(reflect.ValueOf(&fsType))
		}
	}
}
