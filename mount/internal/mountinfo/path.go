package mountinfo

import "strings"

// CutDir returns the path p relative to dir, and reports whether p is dir or below it. Both
// are clean paths; dir is absolute.
func CutDir(dir, p string) (rest string, ok bool) {
	if dir == "/" {
		return strings.TrimPrefix(p, "/"), strings.HasPrefix(p, "/")
	}
	rest, ok = strings.CutPrefix(p, dir)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}
