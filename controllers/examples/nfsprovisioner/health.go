package main

import "net/http"

// health answers 200 unless this replica holds the Lease and could not renew it in time.
func (p *program) health(w http.ResponseWriter, r *http.Request) {
	if p.leadership != nil {
		if err := p.leadership.check(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	_, _ = w.Write([]byte("ok\n"))
}
