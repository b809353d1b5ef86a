package volume

import "github.com/volumekit/volumekit/internal/input"

// maxWrappers bounds how deep [As] looks, so that wrappers in a circle end.
const maxWrappers = 64

// As returns the plugin, or the first plugin inside it, that is an A: an ability
// such as [AttachableVolumePlugin], or the type of one plugin. A plugin that
// wraps another shows it with a method
//
//	Unwrap() VolumePlugin
//
// A plugin without the ability, and a nil one, is no A; nothing is wrong with it.
func As[A any](plugin VolumePlugin) (A, bool) {
	for range maxWrappers {
		if input.IsNil(plugin) {
			break
		}
		if ability, ok := plugin.(A); ok {
			return ability, true
		}
		wrapper, ok := plugin.(interface{ Unwrap() VolumePlugin })
		if !ok {
			break
		}
		plugin = wrapper.Unwrap()
	}
	var none A
	return none, false
}
