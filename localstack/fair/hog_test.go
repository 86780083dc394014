package fair
import ("testing";"os")
func TestHogX(t *testing.T) { r := &Report{Out: os.Stdout}; r.Hog(t) }
