package mount

import "reflect"

// maxWrappers bounds how deep [As] looks, so that wrappers in a circle end.
const maxWrappers = 64

// As returns the mounter, or the first mounter inside it, that is an A: an ability such as
// [DirectoryMounter], [Isolator] or [Watcher], or the type of one mounter. A mounter that wraps
// another shows it with a method
//
//	Unwrap() Interface
//
// The calls of an ability that only the inner mounter has do not pass through the wrapper. A
// wrapper that counts or changes calls either has the abilities itself, or no Unwrap: then its
// users make the general calls, which are slower and do the same. A wrapper should embed
// [Interface]: Go gives a type that embeds a *Mounter all abilities of the *Mounter.
//
// For a mounter without the ability, and for a nil one, As returns false; that is no error.
func As[A any](mounter Interface) (A, bool) {
	for range maxWrappers {
		if v := reflect.ValueOf(mounter); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
			break
		}
		if ability, ok := mounter.(A); ok {
			return ability, true
		}
		wrapper, ok := mounter.(interface{ Unwrap() Interface })
		if !ok {
			break
		}
		mounter = wrapper.Unwrap()
	}
	var none A
	return none, false
}
