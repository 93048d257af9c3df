// The travel times of the last arrivals as a line, 240 by 40: fast is low. The scale is
// logarithmic from 0.1 ms to 100 ms, so that a slow one does not flatten all the others.

const WIDTH = 240;
const HEIGHT = 40;
const POINTS = 60;

export function sparkline(times: readonly number[]): string {
  const shown = times.slice(-POINTS);
  const step = WIDTH / (POINTS - 1);
  const from = POINTS - shown.length;
  const point = (ms: number, place: number): string => {
    const share = Math.min(1, Math.max(0, (Math.log10(Math.max(ms, 1e-3)) + 1) / 3));
    const [x, y] = [(from + place) * step, HEIGHT - 3 - share * (HEIGHT - 6)];
    return `${place === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
  };
  return shown.map(point).join("");
}
