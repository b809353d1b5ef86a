package require

import (
	"fmt"
	"reflect"
	"strings"
)

const (
	maxDifferences = 20   // of describe
	maxPath        = 1024 // ends the comparison of values that contain themselves
)

// describe lists the parts in which two values differ, each with its path:
//
//	.files[/tmp/a]: want nothing, got -rw-r--r--
//
// It prints both values if it finds no such part.
func describe(want, got any) string {
	var d differences
	d.compare("", reflect.ValueOf(want), reflect.ValueOf(got))
	switch {
	case len(d) == 0:
		return fmt.Sprintf("want %+v\ngot  %+v\n", want, got)
	case len(d) > maxDifferences:
		d = append(d[:maxDifferences:maxDifferences], fmt.Sprintf("and %d more", len(d)-maxDifferences))
	}
	return strings.Join(d, "\n") + "\n"
}

type differences []string

func (d *differences) add(path string, want, got reflect.Value) {
	text := fmt.Sprintf("want %s, got %s", show(want), show(got))
	if path != "" {
		text = path + ": " + text
	}
	*d = append(*d, text)
}

func show(value reflect.Value) string {
	if !value.IsValid() {
		return "nothing"
	}
	return fmt.Sprintf("%+v", value) // the value in the reflect.Value
}

// compare adds the differences of two values at a path. An invalid value is a missing one.
func (d *differences) compare(path string, want, got reflect.Value) {
	if len(path) > maxPath {
		return
	}
	if !want.IsValid() || !got.IsValid() || want.Type() != got.Type() {
		if want.IsValid() || got.IsValid() {
			d.add(path, want, got)
		}
		return
	}
	switch want.Kind() {
	case reflect.Pointer, reflect.Interface:
		if want.IsNil() || got.IsNil() {
			if want.IsNil() != got.IsNil() {
				d.add(path, want, got)
			}
			return
		}
		d.compare(path, want.Elem(), got.Elem())
	case reflect.Struct:
		for i := range want.NumField() {
			d.compare(path+"."+want.Type().Field(i).Name, want.Field(i), got.Field(i))
		}
	case reflect.Map:
		for _, key := range want.MapKeys() {
			d.compare(fmt.Sprintf("%s[%v]", path, key), want.MapIndex(key), got.MapIndex(key))
		}
		for _, key := range got.MapKeys() {
			if !want.MapIndex(key).IsValid() {
				d.compare(fmt.Sprintf("%s[%v]", path, key), reflect.Value{}, got.MapIndex(key))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range max(want.Len(), got.Len()) {
			d.compare(fmt.Sprintf("%s[%d]", path, i), element(want, i), element(got, i))
		}
	default:
		if want.Comparable() && !want.Equal(got) {
			d.add(path, want, got)
		}
	}
}

// element returns an element of a list, or the invalid value beyond its end.
func element(list reflect.Value, i int) reflect.Value {
	if i < list.Len() {
		return list.Index(i)
	}
	return reflect.Value{}
}
