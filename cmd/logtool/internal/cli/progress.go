package cli

import (
	"fmt"
	"time"
)

// Progress tells a waiting person how far a command is: one line on stderr that
// is written again and again, from the first second on. It shows nothing if
// stderr is not a terminal or -q was given. It is not safe for concurrent use.
type Progress struct {
	app   *App
	what  string
	began time.Time
	last  time.Time // when the line was written; zero before that
}

const (
	progressAfter = time.Second
	progressEvery = 200 * time.Millisecond
)

// Progress begins to show how far what, such as "checking", is.
func (app *App) Progress(what string) *Progress {
	return &Progress{app: app, what: what, began: app.Now()}
}

// Update shows that done of total bytes are done, if it is time to. It costs a
// look at the clock. A total of 0 is unknown.
func (p *Progress) Update(done, total int64) {
	if p.app.quiet || !p.app.StderrTerminal {
		return
	}
	now := p.app.Now()
	if now.Sub(p.began) < progressAfter || now.Sub(p.last) < progressEvery {
		return
	}
	p.last = now
	amount := sizeText(done)
	if total > 0 {
		amount = fmt.Sprintf("%3d%% of %s", min(100, done*100/total), sizeText(total))
	}
	fmt.Fprintf(p.app.Stderr, "\r\x1b[K%s %s", visible(p.what), amount)
}

// Clear removes the line. Call it before writing anything else to the terminal,
// and at the end.
func (p *Progress) Clear() {
	if !p.last.IsZero() {
		fmt.Fprint(p.app.Stderr, "\r\x1b[K")
		p.last = time.Time{}
	}
}
