// Who a number is: every id has a name, and always the same one. Names that are text are their own.

const FIRST = [
  "Ada", "Agnes", "Aino", "Alan", "Amara", "Anders", "Annie", "Arno", "Beatrice", "Benoît",
  "Carl", "Caroline", "Cecilia", "Chen", "Clara", "Dorothea", "Edmond", "Edwin", "Elif", "Emil",
  "Emmy", "Fatima", "Felix", "Frieda", "Galina", "Grace", "Hana", "Henrietta", "Hugo", "Hypatia",
  "Ida", "Ines", "Ishaan", "Jocelyn", "Johann", "Karl", "Katherine", "Kofi", "Leo", "Lise",
  "Maria", "Mary", "Mei", "Nicolaus", "Nils", "Noor", "Olga", "Omar", "Otto", "Percy",
  "Priya", "Rosa", "Ruby", "Sofia", "Subra", "Tala", "Tycho", "Ursula", "Vera", "Wanda",
  "William", "Yuki", "Zeno", "Zofia",
];

const LAST = [
  "Albireo", "Aldrin", "Bell", "Bessel", "Borealis", "Brahe", "Cannon", "Cassini", "Celsius",
  "Chandra", "Cepheid", "Clavius", "Draper", "Eclipse", "Encke", "Euler", "Fleming", "Fomalhaut",
  "Galilei", "Gauss", "Gill", "Hale", "Halley", "Herschel", "Hertz", "Hevelius", "Hooke", "Hubble",
  "Huygens", "Jansky", "Kepler", "Kuiper", "Lagrange", "Leavitt", "Lovelace", "Lyra", "Messier",
  "Mira", "Mitchell", "Moon", "Nova", "Olbers", "Oort", "Orion", "Payne", "Perihelion", "Pons",
  "Pulsar", "Quasar", "Rigel", "Roche", "Rubin", "Sagan", "Schmidt", "Solstice", "Somerville",
  "Spica", "Tarazed", "Titan", "Vega", "Wega", "Wolf", "Zenith", "Zwicky",
];

/** A number of 32 bits that looks random and follows from the text (FNV-1a, then a mix). */
export function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at++) {
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  }
  value = Math.imul(value ^ (value >>> 15), 0x2c1b3c6d);
  value = Math.imul(value ^ (value >>> 12), 0x297a2d39);
  return (value ^ (value >>> 15)) >>> 0;
}

/** Whether an id is one of the demo's numbers. */
export function isNumber(id: string): boolean {
  return /^\d{1,10}$/.test(id);
}

/** A friend's name. */
export function nameOf(id: string): string {
  if (!isNumber(id)) return id;
  const value = hash(id);
  return `${FIRST[value % FIRST.length]} ${LAST[(value >>> 8) % LAST.length]}`;
}
