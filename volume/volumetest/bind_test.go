package volumetest

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest/internal/contract"
)

// TestBindPassesEachField: a field that bind forgets would leave its promises untested.
func TestBindPassesEachField(t *testing.T) {
	var config Config[*testing.T]
	fields := reflect.ValueOf(&config).Elem()
	require.Equal(t, reflect.TypeFor[contract.Config]().NumField(), fields.NumField())
	for i := range fields.NumField() {
		fields.Field(i).Set(anyValue(t, fields.Field(i).Type()))
	}
	bound := reflect.ValueOf(config.bind(t))
	for i := range bound.NumField() {
		name := bound.Type().Field(i).Name
		require.False(t, bound.Field(i).IsZero(), name)
		require.True(t, fields.FieldByName(name).IsValid(), name)
	}
	none := reflect.ValueOf(Config[*testing.T]{}.bind(t))
	for i := range none.NumField() {
		if name := none.Type().Field(i).Name; name != "New" { // which is required
			require.True(t, none.Field(i).IsZero(), name)
		}
	}
}

// anyValue returns a value other than the zero value.
func anyValue(t *testing.T, of reflect.Type) reflect.Value {
	t.Helper()
	value := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Func:
		return reflect.MakeFunc(of, func([]reflect.Value) []reflect.Value { return nil })
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int:
		value.SetInt(1)
	case reflect.String:
		value.SetString("s")
	case reflect.Map:
		return reflect.MakeMap(of)
	case reflect.Pointer:
		return reflect.New(of.Elem())
	case reflect.Slice:
		return reflect.MakeSlice(of, 1, 1)
	default:
		switch value.Addr().Interface().(type) {
		case *resource.Quantity:
			return reflect.ValueOf(resource.MustParse("1"))
		case *Arguments:
			return reflect.ValueOf(Arguments{FsUser: Ignored, FsGroup: Ignored, DesiredSize: Ignored, SELinuxLabel: Ignored})
		}
		require.FailNow(t, "a field of a new kind", of.String())
	}
	return value
}

// TestFunctionsReceiveTheTest: a function of Config receives the test that calls it.
func TestFunctionsReceiveTheTest(t *testing.T) {
	var seen *testing.T
	config := Config[*testing.T]{Spec: func(t *testing.T) *volume.Spec { seen = t; return nil }}
	config.bind(t).Spec()
	require.Same(t, t, seen)
}
